//! Keeps what has been computed: each distinct replica, message, blueprint once, and each step of each replica once.
//!
//! Whole worlds are many, but the replicas in them are few: the same step of the same replica happens in thousands of worlds. It
//! is computed by the real phaser the first time and looked up ever after.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use blueprint::{Breach, Conduct, Instant, NodeId, Position, Slot, SlotSet, Term};
use phaser::{Config, Fork, Founding, Image, Input, Message, Ticket, View};

use super::configuration::Configuration;
use super::facts::{Checker, Facts, Fault, fault};
use super::hash::{Mixer, Numbered, name_of};
use super::meta::{BUCKETS, CHILD, Desk, Meta, Proposal};
use super::replica::{Deed, FIRST_READ, Meeting, NOW, Played, Replica, SLOTS, TICK, Tables, body};
use super::world::{
    Budget, Deferred, Effect, Known, Letter, NODES, Outcome, Seen, Stimulus, World, bucket_of, node_of, place,
};

pub(super) struct Explorer<C> {
    pub(super) configuration: Configuration,
    config: Config,
    pub(super) replicas: Numbered<Option<Known<C>>>,
    pub(super) letters: Numbered<Letter>,
    pub(super) metas: Numbered<Meta>,
    pub(super) desks: Numbered<Desk>,
    pub(super) facts: Numbered<Facts>,
    deferred: Numbered<Vec<Deferred>>,
    views: Numbered<View>,
    pub(super) meetings: Numbered<Meeting>,
    effects: HashMap<(u32, u8, Stimulus), Outcome, Mixer>,
    older_replicas: HashMap<u32, u32, Mixer>,
    older_letters: HashMap<u32, u32, Mixer>,
    /// (replica, bucket, facts) that were found to agree.
    agreed: HashSet<(u32, u8, u32), Mixer>,
    /// While a trace is told: what happens, in words.
    pub(super) told: Option<Vec<String>>,
}

impl<C: Conduct + Hash> Explorer<C> {
    pub(super) fn new(configuration: Configuration) -> Self {
        let beacon = Message::Beacon { term: Term(1), commit: blueprint::Index(0), sent: NOW };
        assert_eq!(
            beacon.clone().canonical(NOW),
            beacon,
            "the phaser's canonical present is what every clock says here"
        );
        let mut replicas = Numbered::new();
        replicas.number(0, || None);
        Self {
            config: configuration.phaser(),
            configuration,
            replicas,
            letters: Numbered::new(),
            metas: Numbered::new(),
            desks: Numbered::new(),
            facts: Numbered::new(),
            deferred: Numbered::new(),
            views: Numbered::new(),
            meetings: Numbered::new(),
            effects: HashMap::default(),
            older_replicas: HashMap::default(),
            older_letters: HashMap::default(),
            agreed: HashSet::default(),
            told: None,
        }
    }

    /// The blueprint of epoch 1, and nobody has seen it.
    pub(super) fn origin(&mut self) -> World {
        let meta = Meta::first(self.configuration.nodes(), &self.configuration.government());
        World {
            replicas: [0; BUCKETS * NODES],
            seen: [Seen::default(); NODES],
            meta: self.metas.add(meta),
            desk: self.desks.add(Desk::default()),
            facts: self.facts.add(Facts::default()),
            deferred: [self.deferred.add(Vec::new()); NODES],
            budget: Budget::default(),
            lost: [0; NODES],
            mail: Vec::new(),
        }
    }

    pub(super) fn known(&self, number: u32) -> Option<&Known<C>> {
        self.replicas.get(number).as_ref()
    }

    /// How many distinct replicas and messages there are.
    pub(super) fn parts(&self) -> (usize, usize) {
        (self.replicas.len(), self.letters.len())
    }

    /// Gives a replica an input and carries out what follows from it.
    pub(super) fn perform(&mut self, world: &mut World, at: usize, stimulus: Stimulus) -> Result<(), Fault> {
        let number = world.replicas[at];
        if number == 0 {
            return Ok(());
        }
        let effect = self.outcome(number, at, stimulus)?;
        self.take_effect(world, at, &effect)?;
        self.follow_up(world, node_of(at), &effect)
    }

    pub(super) fn outcome(&mut self, number: u32, at: usize, stimulus: Stimulus) -> Outcome {
        let key = (number, bucket_of(at) as u8, stimulus);
        if let Some(outcome) = self.effects.get(&key) {
            return outcome.clone();
        }
        let outcome = self.compute(number, at, stimulus);
        self.effects.insert(key, outcome.clone());
        outcome
    }

    pub(super) fn found(
        &mut self,
        world: &mut World,
        at: usize,
        founding: Founding,
        tables: Tables,
    ) -> Result<(), Fault> {
        let (config, disk) = (self.config.clone(), self.configuration.disk());
        let effect = self.guarded(at, || Replica::found(&config, founding, tables, disk))?;
        self.take_effect(world, at, &effect)
    }

    fn compute(&mut self, number: u32, at: usize, stimulus: Stimulus) -> Outcome {
        let (config, disk) = (self.config.clone(), self.configuration.disk());
        let replica = self.known(number).expect("it exists").replica.clone();
        let input = match stimulus {
            Stimulus::Letter(letter) => Input::Message(self.letters.get(letter).envelope.clone()),
            Stimulus::Wake => Input::Wake,
            Stimulus::View(view) => Input::View(self.views.get(view).clone()),
            Stimulus::Told { nonce, view } => Input::Told { nonce, view: self.views.get(view).clone() },
            Stimulus::Rejected { term } => Input::Rejected { term: Term(term) },
            Stimulus::Write { write, slot } => {
                Input::Write { ticket: Ticket(u64::from(write)), slot: Slot(u16::from(slot)), body: body(write) }
            }
            Stimulus::Read { read, slot } => {
                Input::Read { ticket: Ticket(FIRST_READ + u64::from(read)), slot: Slot(u16::from(slot)) }
            }
            Stimulus::HandOver { to } => Input::HandOver { to: NodeId(u64::from(to) + 1) },
            Stimulus::Split => Input::Split { child: CHILD, slots: SlotSet::single(Slot(1)) },
            Stimulus::Forked => Input::Forked { child: CHILD },
            Stimulus::Named { at } => Input::Named { at },
            Stimulus::Retire => Input::Retire,
            Stimulus::Met { meeting } => {
                let meeting = self.meetings.get(meeting).clone();
                return self.guarded(at, || replica.meet(meeting, disk));
            }
            Stimulus::Given { slots } => {
                let slots: SlotSet = (0..SLOTS as u16).filter(|slot| slots & (1 << slot) != 0).map(Slot).collect();
                return self.guarded(at, || replica.give(&slots, disk));
            }
            Stimulus::Written { writes } => return self.guarded(at, || replica.sync(usize::from(writes), disk)),
            Stimulus::Crash { kept, child } => {
                let children: Vec<_> = child.into_iter().map(|at| (CHILD, at)).collect();
                return self.guarded(at, || replica.crash(kept, &children, &config, disk));
            }
        };
        self.guarded(at, || replica.play(input, disk))
    }

    /// The phaser asserts what it relies on; when that fails it is a violation, with a trace like any other.
    fn guarded(&mut self, at: usize, play: impl FnOnce() -> Played<C>) -> Outcome {
        match catch_unwind(AssertUnwindSafe(play)) {
            Ok(played) => Ok(Rc::new(self.number(at, played))),
            Err(panic) => {
                let text = panic.downcast_ref::<String>().map(String::as_str);
                let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
                fault(Checker::InvariantsHold, format!("the phaser of n{} panicked: {text}", node_of(at) + 1))
            }
        }
    }

    fn number(&mut self, at: usize, played: Played<C>) -> Effect {
        let Played { replica, sent, proposals, questions, registers, merges, forks, beside, deeds, committed } = played;
        let bucket = bucket_of(at) as u8;
        let letters = sent.into_iter().map(|mut envelope| {
            envelope.message = envelope.message.canonical(NOW);
            self.letters.add(Letter { bucket, envelope })
        });
        let letters = letters.collect();
        let replica = replica.map_or(0, |replica| self.number_replica(replica));
        Effect { replica, letters, proposals, questions, registers, merges, forks, beside, deeds, committed }
    }

    fn number_replica(&mut self, replica: Replica<C>) -> u32 {
        self.replicas.number(name_of(&replica), || Some(Known::new(replica)))
    }

    pub(super) fn take_effect(&mut self, world: &mut World, at: usize, effect: &Effect) -> Result<(), Fault> {
        world.replicas[at] = effect.replica;
        for letter in &effect.letters {
            self.post(world, *letter);
        }
        let told = effect.registers.is_empty() && effect.merges.is_empty();
        if !(effect.proposals.is_empty() && effect.questions.is_empty() && told) {
            self.put_on_desk(world, at, effect);
        }
        if self.told.is_some() {
            self.tell_effect(at, effect);
        }
        if !effect.committed.is_empty() {
            let mut facts = self.facts.get(world.facts).clone();
            facts.learn(bucket_of(at), &effect.committed)?;
            world.facts = self.facts.add(facts);
        }
        self.check_tables(world, at)?;
        for deed in &effect.deeds {
            self.check_deed(world, at, deed)?;
        }
        for (fork, tables) in &effect.forks {
            self.fork(world, at, fork, tables)?;
        }
        Ok(())
    }

    fn post(&mut self, world: &mut World, letter: u32) {
        let Err(place) = world.mail.binary_search(&letter) else { return };
        let to = self.letters.get(letter).to();
        if to >= world.replicas.len() || self.is_idle(letter, world.replicas[to]) {
            return;
        }
        world.mail.insert(place, letter);
    }

    /// "You are outranked" tells a replica nothing that it could act on; if it ever does, the letter is kept.
    fn is_idle(&mut self, letter: u32, receiver: u32) -> bool {
        if !matches!(self.letters.get(letter).envelope.message, Message::Outranked { .. }) || receiver == 0 {
            return false;
        }
        let at = self.letters.get(letter).to();
        self.outcome(receiver, at, Stimulus::Letter(letter)).is_ok_and(|effect| effect.replica == receiver)
    }

    fn put_on_desk(&mut self, world: &mut World, at: usize, effect: &Effect) {
        let mut desk = self.desks.get(world.desk).clone();
        let bucket = bucket_of(at) as u8;
        for (term, change) in &effect.proposals {
            desk.propose(Proposal { by: at as u8, bucket, term: *term, change: change.clone() });
        }
        for nonce in &effect.questions {
            desk.ask(at as u8, *nonce);
        }
        for (_, slots, at) in &effect.registers {
            desk.register(slots.clone(), *at);
        }
        effect.merges.iter().for_each(|at| desk.merge(*at));
        world.desk = self.desks.add(desk);
    }

    /// Is what this replica made of what is committed the same as everyone's?
    fn check_tables(&mut self, world: &World, at: usize) -> Result<(), Fault> {
        let key = (world.replicas[at], bucket_of(at) as u8, world.facts);
        if let Some(known) = self.replicas.get(key.0)
            && !self.agreed.contains(&key)
        {
            self.facts.get(world.facts).check_tables(bucket_of(at), &known.lore.standing)?;
            self.agreed.insert(key);
        }
        Ok(())
    }

    fn check_deed(&mut self, world: &mut World, at: usize, deed: &Deed) -> Result<(), Fault> {
        match *deed {
            Deed::Acknowledged { write } => self.amend(world, |facts| facts.acknowledged |= 1 << write),
            Deed::Refused { write } => self.amend(world, |facts| facts.refused |= 1 << write),
            Deed::Read { read, slot, sees } => {
                let mut facts = self.facts.get(world.facts).clone();
                facts.check_read(read, sees, slot)?;
                world.facts = self.facts.add(facts);
            }
            Deed::Serving { term } => {
                let mut facts = self.facts.get(world.facts).clone();
                let known = self.known(world.replicas[at]).expect("it serves");
                if known.replica.phaser.is_frozen() {
                    return Ok(()); // it rules, and serves nothing any more
                }
                facts.check_serving(bucket_of(at), term.0, known.lore.owned, &known.replica.tables)?;
                world.facts = self.facts.add(facts);
            }
            Deed::Uncertain { .. }
            | Deed::Reigned { .. }
            | Deed::SteppedDown { .. }
            | Deed::Joint
            | Deed::Drained
            | Deed::Dropped(_)
            | Deed::Frozen
            | Deed::Absorbed => {}
        }
        Ok(())
    }

    pub(super) fn amend(&mut self, world: &mut World, amendment: impl FnOnce(&mut Facts)) {
        let mut facts = self.facts.get(world.facts).clone();
        amendment(&mut facts);
        world.facts = self.facts.add(facts);
    }

    /// A Split was applied: the child comes into being here unless there is one, or its place is elsewhere. That is judged by a
    /// blueprint at least as new as what the parent's phaser knows and as what the node once acted on.
    fn fork(&mut self, world: &mut World, parent: usize, fork: &Fork, tables: &Tables) -> Result<(), Fault> {
        let node = node_of(parent);
        if fork.whole {
            self.facts.get(world.facts).check_fork(fork.at.index.0, tables)?;
        }
        if world.replicas[place(1, node)] != 0 && !C::breaks(Breach::ForkOverwritesReplica) {
            return self.perform(world, parent, Stimulus::Forked);
        }
        let known = self.known(world.replicas[parent]).map_or(0, |known| known.replica.phaser.known_epoch().0 as u8);
        let Seen { epoch, told } = world.seen[node];
        if told && known <= epoch {
            return self.make_child(world, parent, fork, tables);
        }
        let mut deferred = self.deferred.get(world.deferred[node]).clone();
        deferred.push(Deferred { fork: fork.clone(), tables: tables.clone(), needs: epoch.max(known) });
        world.deferred[node] = self.deferred.add(deferred);
        Ok(())
    }

    fn decide_deferred(&mut self, world: &mut World, node: usize) -> Result<(), Fault> {
        let deferred = self.deferred.get(world.deferred[node]).clone();
        if deferred.is_empty() {
            return Ok(());
        }
        let (ready, later): (Vec<_>, Vec<_>) = deferred.into_iter().partition(|d| d.needs <= world.seen[node].epoch);
        world.deferred[node] = self.deferred.add(later);
        for Deferred { fork, tables, .. } in ready {
            if world.replicas[place(1, node)] != 0 {
                self.perform(world, place(0, node), Stimulus::Forked)?;
            } else {
                self.make_child(world, place(0, node), &fork, &tables)?;
            }
        }
        Ok(())
    }

    fn make_child(&mut self, world: &mut World, parent: usize, fork: &Fork, tables: &Tables) -> Result<(), Fault> {
        let node = node_of(parent);
        let child = place(1, node);
        let meta = self.metas.get(world.meta);
        let epoch = world.seen[node].epoch;
        let me = if meta.at(epoch).is_some_and(|blueprint| blueprint.reserved.contains_key(&CHILD)) {
            self.known(world.replicas[parent]).map(|known| known.replica.phaser.me())
        } else {
            meta.named(1, epoch, NodeId(node as u64 + 1))
        };
        let Some(me) = me.filter(|_| fork.whole) else { return self.perform(world, parent, Stimulus::Forked) };
        let image = Image {
            as_of: fork.at.index,
            covered: fork.slots.clone(),
            replaced: fork.slots.clone(),
            tables: fork.slots.iter().map(|s| (s, tables[usize::from(s.0)].clone().into())).collect(),
        };
        let founding = Founding {
            me,
            promised: fork.at.term,
            base: fork.at,
            clock: 0,
            owned: fork.slots.clone(),
            image,
            abstain_until: fork.abstain_until,
        };
        self.found(world, child, founding, tables.clone())?;
        self.govern(world, child)?;
        self.tell_parent(world, child)
    }

    /// The child is durable: its parent may forget about it.
    pub(super) fn tell_parent(&mut self, world: &mut World, child: usize) -> Result<(), Fault> {
        if self.known(world.replicas[child]).is_some_and(|known| known.replica.durable.is_some()) {
            return self.perform(world, child - NODES, Stimulus::Forked);
        }
        Ok(())
    }

    /// Tells a phaser what the blueprint that its node knows says about its bucket.
    pub(super) fn govern(&mut self, world: &mut World, at: usize) -> Result<(), Fault> {
        let seen = world.seen[node_of(at)];
        if !seen.told {
            return Ok(());
        }
        let stimulus = self.view(world, at, seen.epoch).map_or(Stimulus::Retire, Stimulus::View);
        self.perform(world, at, stimulus)
    }

    /// None when the bucket is no more, or there is no replica that could be told.
    pub(super) fn view(&mut self, world: &World, at: usize, epoch: u8) -> Option<u32> {
        let phaser = &self.known(world.replicas[at])?.replica.phaser;
        let view = self.metas.get(world.meta).view(bucket_of(at), epoch, phaser)?;
        Some(self.views.add(view))
    }

    /// A node acts on the blueprint of an epoch.
    pub(super) fn see(&mut self, world: &mut World, node: usize, epoch: u8) -> Result<(), Fault> {
        world.seen[node] = Seen { epoch, told: true };
        for bucket in 0..BUCKETS {
            if world.replicas[place(bucket, node)] == 0 {
                self.take_part(world, bucket, node, epoch)?;
            }
        }
        self.decide_deferred(world, node)?;
        for bucket in 0..BUCKETS {
            self.govern(world, place(bucket, node))?;
        }
        Ok(())
    }

    /// Named, and nothing here: the first start of a member, or an empty candidate.
    fn take_part(&mut self, world: &mut World, bucket: usize, node: usize, epoch: u8) -> Result<(), Fault> {
        let meta = self.metas.get(world.meta);
        let Some(government) = meta.government_at(bucket, epoch) else { return Ok(()) };
        let Some(me) = government.named(NodeId(node as u64 + 1)) else { return Ok(()) };
        let first = bucket == 0 && government.term == Term(1) && government.is_member(me);
        let candidate = government.candidates.contains(&me) && !(bucket == 1 && self.awaits_fork(world, node));
        let rejoins = C::breaks(Breach::WipedDiskRejoins) && world.lost[node] != 0 && government.is_member(me);
        if me.incarnation.0 == u64::from(world.lost[node]) && !rejoins || !(first || candidate || rejoins) {
            return Ok(());
        }
        let owned = meta.slots_at(bucket, epoch).intersection(&self.configuration.slots());
        let covered = if first || rejoins { owned.clone() } else { SlotSet::empty() };
        let image = Image { as_of: blueprint::Index(0), covered, ..Image::default() };
        let base = Position::default();
        let founding = Founding { me, promised: Term(0), base, clock: 0, owned, image, abstain_until: Instant::ZERO };
        self.found(world, place(bucket, node), founding, Tables::default())
    }

    /// The child will be made of what is here.
    fn awaits_fork(&self, world: &World, node: usize) -> bool {
        let Some(at) = self.metas.get(world.meta).registered_at() else { return false };
        let parent = self.known(world.replicas[place(0, node)]);
        parent.is_some_and(|known| known.replica.phaser.awaits_split(CHILD, at))
            || self.deferred.get(world.deferred[node]).iter().any(|d| d.fork.at == at)
    }

    /// Forks that wait lose their process.
    pub(super) fn forget_deferred(&mut self, world: &mut World, node: usize) {
        world.deferred[node] = self.deferred.add(Vec::new());
    }

    /// Time passes for everyone.
    pub(super) fn tick(&mut self, world: &mut World) {
        for number in &mut world.replicas {
            *number = self.older(*number);
        }
        for number in &mut world.deferred {
            let mut deferred = self.deferred.get(*number).clone();
            for waiting in &mut deferred {
                waiting.fork.abstain_until = waiting.fork.abstain_until - TICK;
            }
            *number = self.deferred.add(deferred);
        }
        let mut mail: Vec<u32> = world.mail.iter().map(|letter| self.older_letter(*letter)).collect();
        mail.sort_unstable();
        mail.dedup();
        world.mail = mail;
    }

    fn older(&mut self, number: u32) -> u32 {
        if let Some(older) = self.older_replicas.get(&number) {
            return *older;
        }
        let Some(known) = self.known(number) else { return 0 };
        let older = known.replica.age();
        let older = self.number_replica(older);
        self.older_replicas.insert(number, older);
        older
    }

    fn older_letter(&mut self, number: u32) -> u32 {
        if let Some(older) = self.older_letters.get(&number) {
            return *older;
        }
        let mut letter = self.letters.get(number).clone();
        letter.envelope.message = letter.envelope.message.canonical(NOW + TICK);
        let older = self.letters.add(letter);
        self.older_letters.insert(number, older);
        older
    }

    /// Letters that can never matter again are thrown away.
    pub(super) fn clear_mail(&self, world: &mut World) {
        let (replicas, seen) = (&world.replicas, &world.seen);
        let meta = self.metas.get(world.meta);
        world.mail.retain(|number| {
            let letter = self.letters.get(*number);
            match self.known(replicas[letter.to()]) {
                Some(known) => !letter.is_dead::<C>(&known.lore),
                None => !(letter.bucket == 1 && meta.is_over_at(seen[node_of(letter.to())].epoch)),
            }
        });
    }

    /// What must hold in every world, whatever led to it.
    pub(super) fn check_reads(&self, world: &World) -> Result<(), Fault> {
        let mut readable = [None; SLOTS];
        for (at, number) in world.replicas.iter().enumerate() {
            let Some(known) = self.known(*number).filter(|known| known.lore.readable != 0) else { continue };
            let missed = self.facts.get(world.facts).missing(known.lore.readable, &known.replica.tables);
            if missed != 0 {
                let what = format!(
                    "n{} answers reads without write {}, which was acknowledged",
                    node_of(at) + 1,
                    missed.trailing_zeros()
                );
                return fault(Checker::ReadsSeeAcknowledgedWrites, what);
            }
            for slot in (0..SLOTS).filter(|slot| known.lore.readable & (1 << slot) != 0) {
                if let Some(other) = readable[slot].replace(at) {
                    let what =
                        format!("n{} and n{} both answer reads of slot {slot}", node_of(other) + 1, node_of(at) + 1);
                    return fault(Checker::OneServingPrimary, what);
                }
            }
        }
        Ok(())
    }
}
