//! What must hold over the states of several nodes at once. Each checker is named; what clients saw is checked by the crate `history`.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use blueprint::{
    Birth, Blueprint, BucketId, Change, Command as Proposal, Conduct, Incarnation, Index, Member, NodeId, Position,
    Slot, Term,
};
use node::Node;
use phaser::{EntryRef, Payload};
use registrar::UpdateNumber;
use values::Command;

use crate::host::Host;
use crate::meta::Meta;
use crate::world::{KEYSPACE, Verdict, World, fail};

#[derive(Debug, Default)]
pub struct Checkers {
    /// The one true log of each bucket, as far as anybody has committed it.
    logs: BTreeMap<BucketId, Vec<Option<Committed>>>,
    /// The operating systems of all members restarted at once (level memory), and none of them has gone on since.
    dark: BTreeSet<BucketId>,
    /// What was lost then: whatever the member that went on does not have.
    lost: BTreeMap<BucketId, BTreeSet<Position>>,
    /// Up to where each replica was compared with it.
    compared: BTreeMap<(NodeId, BucketId), (Incarnation, Index)>,
    /// Which term each primary led at the last look.
    led: BTreeMap<(NodeId, BucketId), Term>,
    /// Governments that were handed over: the old primary's log may not grow any more in that term.
    handed_over: BTreeMap<BucketId, HandedOver>,
    /// What the siblings of a node that is not complete yet had of every owner when it started.
    had_at_start: BTreeMap<NodeId, Vec<Had>>,
}

#[derive(Clone, Copy, Debug)]
struct Had {
    sibling: NodeId,
    owner: NodeId,
    known: UpdateNumber,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Committed {
    term: Term,
    hash: u64,
    clock: u64,
    /// The child, if this is a split; what is absorbed, if that is what it does.
    other: Option<BucketId>,
}

#[derive(Debug)]
struct HandedOver {
    from: NodeId,
    term: Term,
    last: Index,
}

impl Checkers {
    pub fn on_blackout(&mut self, bucket: BucketId) {
        self.dark.insert(bucket);
    }

    /// A member in doubt goes on with this: nobody has everything, and what it lacks is lost (R10). Says how many entries.
    pub fn on_resumed(&mut self, bucket: BucketId, left: &phaser::Log) -> usize {
        if !self.dark.remove(&bucket) {
            return 0;
        }
        let log = self.logs.entry(bucket).or_default();
        let position = |(at, known): (usize, &Option<Committed>)| {
            known.map(|known| Position { term: known.term, index: Index(at as u64) })
        };
        let is_left = |at: &Position| left.base().index >= at.index || left.holds(*at);
        let kept = log.iter().enumerate().filter_map(position).rfind(is_left);
        let kept = kept.map_or(0, |at| at.index.0 as usize + 1).min(log.len());
        let lost = self.lost.entry(bucket).or_default();
        let before = lost.len();
        lost.extend(log.iter().enumerate().skip(kept).filter_map(position));
        log.truncate(kept);
        self.compared.retain(|(_, b), _| *b != bucket);
        lost.len() - before
    }

    /// Has anything of it been committed?
    pub fn knows(&self, bucket: BucketId) -> bool {
        self.logs.contains_key(&bucket)
    }

    /// Who holds what was lost takes for committed what nobody else has: nobody may count on it.
    fn check_lost(&self, bucket: BucketId, member: Member, log: &phaser::Log) -> Verdict {
        let Some(lost) = self.lost.get(&bucket) else { return Ok(()) };
        let held = std::iter::once(log.base()).chain(log.iter().map(|e| e.at)).find(|at| lost.contains(at));
        held.map_or(Ok(()), |at| fail("lost_stays_lost", format!("{bucket}: {member} is counted on, and holds {at}")))
    }

    /// After every look of a process at its inbox.
    pub fn look<C: Conduct>(&mut self, time: u64, host: usize, hosts: &[Host<C>], meta: &Meta) -> Verdict {
        let Some(node) = hosts[host].node() else { return Ok(()) };
        let id = hosts[host].id;
        for (bucket, phaser) in node.phasers() {
            let known = self.compared.entry((id, bucket)).or_insert((phaser.me().incarnation, Index(0)));
            if known.0 != phaser.me().incarnation || known.1 > phaser.commit() {
                *known = (phaser.me().incarnation, Index(0));
            }
            let led = match phaser.leads() {
                Some((term, _)) => self.led.insert((id, bucket), term),
                None => self.led.remove(&(id, bucket)),
            };
            let from = known.1.max(phaser.log().base().index);
            if from < phaser.commit() {
                known.1 = phaser.commit();
                for entry in phaser.log().from(from.next()).take_while(|entry| entry.at.index <= phaser.commit()) {
                    if self.lost.get(&bucket).is_some_and(|lost| lost.contains(&entry.at)) {
                        let named = meta.blueprint.government(bucket).is_some_and(|g| g.is_member(phaser.me()));
                        if named {
                            self.check_lost(bucket, phaser.me(), phaser.log())?;
                        }
                        continue;
                    }
                    let first = self.compare(time, id, bucket, &entry)?;
                    if first && let Some((term, _)) = phaser.leads() {
                        // It may have committed in the term before and gone on to the next one since the last look.
                        let before = led.filter(|led| *led < term);
                        let copies = Self::check_copies(bucket, term, &entry, hosts, meta);
                        if copies.is_err()
                            && before.is_none_or(|b| Self::check_copies(bucket, b, &entry, hosts, meta).is_err())
                        {
                            return copies;
                        }
                    }
                }
            }
            if let Some(handed) = self.handed_over.get(&bucket)
                && handed.from == id
                && phaser.log().last().term == handed.term
                && phaser.log().last().index > handed.last
            {
                return fail(
                    "calm_hand_over",
                    format!("{bucket}: {id} handed {} over and then appended {}", handed.term, phaser.log().last()),
                );
            }
        }
        Ok(())
    }

    /// Is this what everybody else committed there? Says whether it is the first to do so.
    fn compare(
        &mut self,
        time: u64,
        id: NodeId,
        bucket: BucketId,
        entry: &EntryRef<'_>,
    ) -> Result<bool, crate::world::Failure> {
        let log = self.logs.entry(bucket).or_default();
        let at = entry.at.index.0 as usize;
        if log.len() <= at {
            log.resize(at + 1, None);
        }
        let other = match &entry.payload() {
            Payload::Split { child: other, .. } | Payload::Absorb { from: other, .. } => Some(*other),
            Payload::Reign | Payload::Command { .. } | Payload::Freeze { .. } => None,
        };
        let committed = Committed { term: entry.at.term, hash: hash(entry), clock: entry.clock, other };
        match log[at] {
            Some(known) if known == committed => Ok(false),
            Some(known) => fail(
                "committed_prefixes_agree",
                format!(
                    "{bucket} {}: {id} committed {entry:?}, another {known:?} ({}.{:06})",
                    entry.at,
                    time / 1_000_000,
                    time % 1_000_000
                ),
            ),
            None => {
                log[at] = Some(committed);
                if let Some(Some(before)) = at.checked_sub(1).map(|b| log[b])
                    && before.clock > entry.clock
                {
                    return fail(
                        "clock_never_goes_back",
                        format!("{bucket} {}: {} after {}", entry.at, entry.clock, before.clock),
                    );
                }
                Ok(true)
            }
        }
    }

    /// R1, R8: whoever commits first is the primary, and then every member of its government has it safe, and they are enough.
    fn check_copies<C: Conduct>(
        bucket: BucketId,
        term: Term,
        entry: &EntryRef<'_>,
        hosts: &[Host<C>],
        meta: &Meta,
    ) -> Verdict {
        let Some(government) = meta.governments.get(&(bucket, term)) else { return Ok(()) };
        if !government.in_sync() {
            return fail("enough_copies", format!("{bucket} {}: committed below the minimum in {term}", entry.at));
        }
        for member in government.members() {
            let Some(host) = hosts.iter().find(|h| h.id == member.node) else { continue };
            let Some(durable) = host.disk.certain(bucket).filter(|d| d.me == member) else { continue };
            if !durable.log.holds(entry.at) && durable.log.base().index < entry.at.index {
                return fail(
                    "enough_copies",
                    format!("{bucket} {}: committed in {term}, and {member} does not have it safe", entry.at),
                );
            }
        }
        Ok(())
    }

    /// At most one node can answer reads of a slot at any instant of true time.
    pub fn on_read<C: Conduct>(
        &self,
        time: u64,
        host: usize,
        command: &Command,
        hosts: &[Host<C>],
        meta: &Meta,
    ) -> Verdict {
        let used = |bucket: BucketId| meta.keyspace_of(bucket) == Some(KEYSPACE);
        let Ok(slot) = command.slot() else { return Ok(()) }; // nothing of a table
        for (other, h) in hosts.iter().enumerate() {
            let Some(node) = h.node().filter(|_| other != host) else { continue };
            let now = h.clock.local(time);
            for (bucket, phaser) in node.phasers() {
                if phaser.reads_until().is_some_and(|until| until > now)
                    && phaser.owned().contains(slot)
                    && used(bucket)
                {
                    return fail(
                        "one_serving_primary",
                        format!("slot {slot} ({bucket}): {} answers a read while {} may", hosts[host].id, h.id),
                    );
                }
            }
        }
        Ok(())
    }

    pub fn on_erased<C: Conduct>(
        &self,
        host: &Host<C>,
        bucket: BucketId,
        incarnation: Incarnation,
        hosts: &[Host<C>],
        meta: &Meta,
    ) -> Verdict {
        let node = host.id;
        // A child that counts on this node must have been made of it before.
        let log = host.disk.settled.replicas.get(&bucket).map(|durable| &durable.log);
        for entry in log.into_iter().flat_map(phaser::Log::milestones) {
            let Payload::Split { child, .. } = entry.payload() else { continue };
            let Some(government) = meta.blueprint.government(child) else { continue };
            let counts = government.members().chain(government.heirs.iter().copied()).find(|m| m.node == node);
            let registered = meta.blueprint.buckets[&child].birth == Birth::Split { parent: bucket, at: entry.at };
            let aside = host.disk.settled.doubtful.contains(&child) && host.disk.settled.replicas.contains_key(&child);
            let made = aside || host.node().is_some_and(|n| n.phaser(child).is_some());
            if counts.is_some_and(|m| m.incarnation == incarnation) && registered && !made {
                return fail(
                    "nothing_erased_while_needed",
                    format!("{node} erased {bucket}, of which {child} was to be made"),
                );
            }
        }
        // A bucket that has absorbed it, and counts here, must not need it any more.
        for (other, durable) in &host.disk.settled.replicas {
            let government = meta.blueprint.government(*other);
            let counts = government.is_some_and(|g| g.is_member(durable.me) || g.heirs.contains(&durable.me));
            let needs = |e: EntryRef<'_>| match &e.payload() {
                Payload::Absorb { from, slots, .. } => *from == bucket && !slots.is_subset(&durable.as_of.keys()),
                _ => false,
            };
            if counts && durable.log.milestones().any(needs) {
                let text = format!("{node} erased {bucket}, which {other} has absorbed and not saved there");
                return fail("nothing_erased_while_needed", text);
            }
        }
        // Made of a Split that every member lost: what the blueprint names is another, which is made now.
        let origin = host.disk.settled.replicas.get(&bucket).map(|durable| durable.origin);
        let birth = meta.blueprint.buckets.get(&bucket).map(|b| b.birth);
        let is_former = matches!((origin, birth), (Some(origin), Some(Birth::Split { at, .. }))
            if origin != at && origin != Position::default());
        let government = meta.blueprint.government(bucket);
        let named = government.and_then(|g| g.named(node));
        let counts = named.is_some_and(|m| government.is_some_and(|g| g.is_member(m) || g.heirs.contains(&m)));
        if is_former && !counts {
            return Ok(());
        }
        // R11: no present member may still believe in it.
        for member in meta.blueprint.government(bucket).into_iter().flat_map(|g| g.members()) {
            let other = hosts.iter().find(|h| h.id == member.node && meta.blueprint.is_present(h.id));
            let believes = other.and_then(Host::node).and_then(|n| n.blueprint().government(bucket)?.named(node));
            if believes.is_some_and(|m| m.incarnation == incarnation) {
                let text = format!("{node} erased {bucket}, and {} acts on a blueprint that names it", member.node);
                return fail("erased_after_echo", text);
            }
        }
        if named.is_some_and(|m| m.incarnation == incarnation) {
            return fail(
                "nothing_erased_while_needed",
                format!("{node} erased {bucket}, which names it as {}", incarnation),
            );
        }
        Ok(())
    }

    pub fn on_restart(&mut self, node: NodeId) {
        self.compared.retain(|(n, _), _| *n != node);
        self.led.retain(|(n, _), _| *n != node);
        self.had_at_start.values_mut().for_each(|had| had.retain(|had| had.sibling != node));
    }

    pub fn on_start<C: Conduct>(&mut self, time: u64, host: usize, hosts: &[Host<C>]) {
        let mut had = Vec::new();
        for sibling in hosts.iter().filter(|h| h.id != hosts[host].id) {
            let Some(registrar) = sibling.node().map(Node::registrar) else { continue };
            let now = sibling.clock.local(time);
            // Nobody speaks of an owner of whom it has no rows.
            let owners = registrar.owners().filter(|owner| registrar.rows(now, *owner).next().is_some());
            let known = owners.filter_map(|owner| Some((owner, registrar.known(owner)?)));
            had.extend(known.map(|(owner, known)| Had { sibling: sibling.id, owner, known }));
        }
        self.had_at_start.insert(hosts[host].id, had);
    }

    /// Who calls itself complete has whatever the siblings that it reaches had when it started. To be asked after every step: a
    /// moment later it may reach others.
    pub fn check_complete<C: Conduct>(&mut self, node: &Node<C>) -> Verdict {
        let (id, registrar) = (node.id(), node.registrar());
        if !registrar.is_complete() {
            return Ok(());
        }
        for Had { sibling, owner, known } in self.had_at_start.remove(&id).into_iter().flatten() {
            let is_present = |node| registrar.peers().any(|(peer, _)| peer == node);
            let has = registrar.known(owner).unwrap_or_default();
            if registrar.is_reachable(sibling) && (owner == id || is_present(owner)) && has < known {
                let text = format!("{id} has {owner} up to {has}; {sibling}, which it reaches, had it up to {known}");
                return fail("complete_means_complete", text);
            }
        }
        Ok(())
    }

    /// Whoever has started is believed: it may not say of a replica what an earlier life of it said, and what it may have lost since.
    pub fn check_rows<C: Conduct>(node: &Node<C>) -> Verdict {
        node.said_by_an_earlier_life().map_or(Ok(()), |bucket| {
            let id = node.id();
            fail(
                "rows_of_this_life",
                format!("{id} has started, and has not taken back what an earlier life said of {bucket}"),
            )
        })
    }

    pub fn on_accepted<C: Conduct>(
        &mut self,
        _time: u64,
        command: &Proposal,
        hosts: &[Host<C>],
        meta: &Meta,
    ) -> Verdict {
        if let Proposal::Succeed { bucket, .. } | Proposal::Register { child: bucket, .. } = command {
            self.check_members(*bucket, hosts, meta)?;
        }
        match command {
            Proposal::Succeed { bucket, replaces, change: Change::HandOver { by, .. } } => {
                let phaser =
                    hosts.iter().find(|h| h.id == by.node).and_then(|h| h.node()).and_then(|n| n.phaser(*bucket));
                if let Some(phaser) = phaser
                    && phaser.leads().is_some_and(|(term, _)| term == *replaces)
                {
                    let last = phaser.log().last().index;
                    if last != phaser.commit() {
                        return fail(
                            "calm_hand_over",
                            format!("{bucket}: {by} handed {replaces} over with writes under way"),
                        );
                    }
                    self.handed_over.insert(*bucket, HandedOver { from: by.node, term: *replaces, last });
                }
                Ok(())
            }
            Proposal::Register { parent, child, at, .. } => self.check_told(*parent, *child, *at),
            Proposal::Merge { absorbed, into, at, .. } => {
                self.check_members(*into, hosts, meta)?;
                self.check_told(*into, *absorbed, *at)
            }
            _ => Ok(()),
        }
    }

    /// R3: whoever is named member, or heir, holds everything that is committed, and is whole.
    fn check_members<C: Conduct>(&self, bucket: BucketId, hosts: &[Host<C>], meta: &Meta) -> Verdict {
        let Some(government) = meta.blueprint.government(bucket) else { return Ok(()) };
        let newest = self.logs.get(&bucket).and_then(|log| Some((log.len() - 1, log.last().copied()??)));
        let Some((index, committed)) = newest else { return Ok(()) };
        let at = Position { term: committed.term, index: Index(index as u64) };
        for member in government.members().chain(government.heirs.iter().copied()) {
            let durable = hosts.iter().find(|h| h.id == member.node).and_then(|h| h.disk.certain(bucket));
            let Some(durable) = durable.filter(|d| d.me == member) else { continue };
            self.check_lost(bucket, member, &durable.log)?;
            let holds = durable.log.holds(at) || durable.log.base().index >= at.index;
            // What was absorbed is here, or lies beside it, up to its end.
            let disk = hosts.iter().find(|h| h.id == member.node).map(|h| &h.disk);
            let beside = |from: BucketId, freeze: Position| {
                disk.and_then(|disk| disk.certain(from)).is_some_and(|d| d.log.holds(freeze))
            };
            let mut owned = durable.owned.clone();
            for entry in durable.log.milestones().filter(|e| e.at.index <= at.index) {
                match &entry.payload() {
                    Payload::Split { slots, .. } => owned = owned.difference(slots),
                    Payload::Absorb { from, freeze, slots, .. } if !beside(*from, *freeze) => {
                        owned = owned.union(slots);
                    }
                    Payload::Absorb { .. } | Payload::Freeze { .. } | Payload::Reign | Payload::Command { .. } => {}
                }
            }
            let whole = owned.is_subset(&durable.as_of.keys());
            let is_robbed = disk.is_some_and(|disk| disk.is_robbed(bucket));
            if !holds || !whole && !is_robbed {
                let has = format!("has {} to {}, whole: {whole}", durable.log.base(), durable.log.last());
                return fail("members_hold_everything", format!("{bucket} {at} is committed, and {member} {has}"));
            }
        }
        Ok(())
    }

    /// Of a Split or an Absorb the blueprint is told after it committed.
    fn check_told(&self, bucket: BucketId, other: BucketId, at: Position) -> Verdict {
        let known = self.logs.get(&bucket).and_then(|log| log.get(at.index.0 as usize).copied().flatten());
        if known.is_none_or(|k| k.term != at.term || k.other != Some(other)) {
            let text =
                format!("{other} was split from {bucket}, or absorbed by it, at {at}, where nobody committed that");
            return fail("told_after_commit", text);
        }
        Ok(())
    }

    /// What a change of the blueprint may not do: give a term a second successor, or depart a node without the word of most.
    pub fn on_changed(&self, command: &Proposal, before: &Blueprint, meta: &Meta) -> Verdict {
        for bucket in meta.blueprint.buckets.values() {
            let (Some(old), Some(new)) = (before.government(bucket.id), bucket.government()) else { continue };
            if old.term == new.term && old != new {
                let text = format!("{}: {old:?} and {new:?} have the same term", bucket.id);
                return fail("one_successor_per_term", text);
            }
        }
        if let Some(bucket) = meta.blueprint.unequal_bond() {
            let text = format!("{bucket} is being merged, and others have parts in it than in the other bucket");
            return fail("bound_alike", text);
        }
        if let Proposal::Depart { node } = command
            && !meta.state.reports.is_silent_to_most(*node)
        {
            let (reporting, alive) = (meta.state.reports.reporting(*node), meta.state.reports.alive());
            return fail("departed_by_most", format!("{node} departed by the word of {reporting} of {alive}"));
        }
        Ok(())
    }

    /// Who knows an owner's updates up to the same number has the same rows of it; and nobody acts on less than it once did.
    pub fn compare_directories<C: Conduct>(&self, time: u64, hosts: &[Host<C>]) -> Verdict {
        for host in hosts {
            let Some(node) = host.node() else { continue };
            for (lane, once) in node.lanes().iter().zip(&host.began_at) {
                let acts_on = lane.blueprint().epoch;
                if acts_on.0 > 0 && acts_on < *once {
                    let text = format!("{} acts on {acts_on}, and once acted on {once}", host.id);
                    return fail("no_older_blueprint", text);
                }
            }
            let operating = node.registrar().phase() == registrar::Phase::Operating;
            let Some(number) = node.registrar().known(host.id).filter(|_| operating) else { continue };
            let truth = node.directory_rows(host.clock.local(time), host.id);
            for other in hosts.iter().filter(|h| h.id != host.id) {
                let Some(holder) = other.node().filter(|n| n.registrar().known(host.id) == Some(number)) else {
                    continue;
                };
                let held = holder.directory_rows(other.clock.local(time), host.id);
                // What is about to expire may have done so on one side.
                let lasts = |(_, left): &(bytes::Bytes, Duration)| *left > Duration::from_secs(15);
                let keys = held.keys().chain(truth.keys());
                let differs = |key: &&bytes::Bytes| {
                    let (a, b) = (held.get(*key), truth.get(*key));
                    a.map(|a| &a.0) != b.map(|b| &b.0) && (a.is_some_and(lasts) || b.is_some_and(lasts))
                };
                if let Some(key) = keys.into_iter().find(differs) {
                    let text = format!(
                        "{} knows {} up to {number:?}: {key:?} is {:?}, not {:?}",
                        other.id,
                        host.id,
                        held.get(key),
                        truth.get(key)
                    );
                    return fail("same_number_same_rows", text);
                }
            }
        }
        Ok(())
    }

    /// Members' tables are identical wherever they stand at the same index.
    pub fn compare_states<C: Conduct>(&self, _time: u64, hosts: &[Host<C>]) -> Verdict {
        let mut known: BTreeMap<(BucketId, Slot, Index), (NodeId, u64)> = BTreeMap::new();
        let mut slots: BTreeMap<BucketId, Vec<Slot>> = BTreeMap::new();
        let mut held: Vec<(NodeId, BucketId, BTreeMap<Slot, u64>)> = Vec::new();
        for host in hosts {
            let Some(node) = host.node() else { continue };
            for (bucket, phaser) in node.phasers() {
                if phaser.is_given() || self.check_lost(bucket, phaser.me(), phaser.log()).is_err() {
                    continue; // it has nothing any more, or nobody counts on it
                }
                let tables: BTreeMap<Slot, u64> =
                    node.fingerprints(bucket).into_iter().map(|(slot, _, print)| (slot, print)).collect();
                slots.entry(bucket).or_default().extend(tables.keys());
                held.push((host.id, bucket, tables));
            }
        }
        for (id, bucket, tables) in held {
            let node = hosts.iter().find(|h| h.id == id).and_then(|h| h.node()).expect("it was there a moment ago");
            let phaser = node.phaser(bucket).expect("it was there a moment ago");
            for slot in &slots[&bucket] {
                let Some(index) = phaser.stands_at(*slot) else { continue };
                let print = tables.get(slot).copied().unwrap_or(0);
                let (other, before) = *known.entry((bucket, *slot, index)).or_insert((id, print));
                if before != print {
                    return fail(
                        "states_identical",
                        format!(
                            "{bucket} slot {slot} at {index}: {id} holds {:?}, {other} holds {:?}",
                            node.table(bucket, *slot),
                            hosts
                                .iter()
                                .find(|h| h.id == other)
                                .and_then(|h| h.node())
                                .and_then(|n| n.table(bucket, *slot)),
                        ),
                    );
                }
            }
        }
        Ok(())
    }
}

/// Of everything in an entry; ours, so that it is the same everywhere and always.
fn hash(entry: &EntryRef<'_>) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    let mut mix = |value: u64| hash = (hash ^ value).wrapping_mul(0x0100_0000_01b3).rotate_left(17);
    mix(entry.clock);
    mix(entry.seed);
    match &entry.payload() {
        Payload::Reign => mix(1),
        Payload::Command { slot, body } => {
            mix(u64::from(slot.0) << 8 | 2);
            body.iter().for_each(|b| mix(u64::from(*b)));
        }
        Payload::Split { child, slots } => {
            mix(child.0 << 8 | 3);
            slots.ranges().for_each(|(a, b)| mix(u64::from(a.0) << 16 | u64::from(b.0)));
        }
        Payload::Freeze { into } => mix(into.0 << 8 | 4),
        Payload::Absorb { from, freeze, slots, ahead } => {
            mix(from.0 << 8 | 5);
            mix(ahead.cast_unsigned());
            mix(freeze.term.0);
            mix(freeze.index.0);
            slots.ranges().for_each(|(a, b)| mix(u64::from(a.0) << 16 | u64::from(b.0)));
        }
    }
    hash
}

impl<C: Conduct> World<C> {
    /// Everything serves, every move has ended, nothing waits; or what still does.
    pub(crate) fn is_at_rest(&self) -> Result<(), String> {
        let blueprint = &self.meta.blueprint;
        if let Some(operation) = blueprint.operations.values().find(|o| !o.is_over()) {
            return Err(format!("an operation has not ended: {operation:?}"));
        }
        for bucket in blueprint.buckets.values() {
            let id = bucket.id;
            let Some(government) = bucket.government() else { return Err(format!("{id} is removed, and still held")) };
            if government.size() != usize::from(self.plan.replicas)
                || !government.candidates.is_empty()
                || !government.in_sync()
            {
                let primary = self.index.get(&government.primary.node).and_then(|i| self.hosts[*i].node());
                let status = primary.and_then(|n| n.phaser(id)).map(phaser::Phaser::status);
                return Err(format!("{id} has {government:?}; its primary: {status:?}"));
            }
            for member in government.members() {
                let Some(&host) = self.index.get(&member.node) else { return Err(format!("{id}: {member} is gone")) };
                let node = self.hosts[host].node().ok_or_else(|| format!("{} is down", member.node))?;
                let phaser = node.phaser(id).ok_or_else(|| format!("{id}: {member} has no replica"))?;
                if phaser.me() != member || !phaser.is_whole() {
                    return Err(format!("{id}: {member} is not whole, or another: {:?}", phaser.status()));
                }
                if member == government.primary && phaser.leads() != Some((government.term, true)) {
                    return Err(format!("{id}: {member} does not serve {}: {:?}", government.term, phaser.status()));
                }
                if phaser.waits_for().is_some() {
                    return Err(format!("{id}: {member} waits: {:?}", phaser.status()));
                }
            }
        }
        for host in &self.hosts {
            let Some(node) = host.node() else { return Err(format!("{} is down", host.id)) };
            for (bucket, phaser) in node.phasers() {
                let Some(known) = blueprint.buckets.get(&bucket) else {
                    return Err(format!("{bucket} on {} is not registered", host.id));
                };
                self.check_directory(host)?;
                if known.government().is_none_or(|g| g.named(host.id).is_none()) {
                    let owes = phaser.owes_fork(&[]);
                    return Err(format!(
                        "{bucket} on {} is not erased (owes a fork: {owes}): {:?}",
                        host.id,
                        phaser.status()
                    ));
                }
            }
        }
        self.is_even()
    }

    /// What each node has heard of the others is what they are.
    fn check_directory(&self, host: &Host<C>) -> Result<(), String> {
        let Some(node) = host.node() else { return Ok(()) };
        for other in self.hosts.iter().filter(|h| h.id != host.id) {
            let Some(truth) = other.node() else { continue };
            let Some(seen) = node.directory().sighting(other.id) else {
                return Err(format!("{} has heard nothing of {}", host.id, other.id));
            };
            if !seen.reachable || seen.node.echoed != truth.blueprint().epoch {
                return Err(format!("{} knows of {} that {seen:?}", host.id, other.id));
            }
            let held: BTreeMap<_, _> = truth.phasers().map(|(b, p)| (b, p.me().incarnation)).collect();
            let said: BTreeMap<_, _> = seen.buckets.iter().map(|(b, row)| (*b, row.incarnation)).collect();
            if held != said {
                return Err(format!("{} believes that {} holds {said:?}, and it holds {held:?}", host.id, other.id));
            }
        }
        Ok(())
    }

    /// What every node and coordinator says that it waits for, about one bucket or all.
    pub(crate) fn why(&self, bucket: Option<BucketId>) -> Vec<String> {
        let mut lines = Vec::new();
        for host in &self.hosts {
            let Some(node) = host.node() else { continue };
            let now = host.clock.local(self.time);
            let about = |standing: &&reactor::Standing| bucket.is_none() || standing.wait.bucket == bucket;
            for standing in node.waits().filter(about) {
                let text = reactor::describe(&standing.wait, Some(standing.waited(now)));
                lines.push(format!("  {}: {text}", host.id));
            }
            for wait in node.coordinator().waits() {
                lines.push(format!("  coordinator of {}: {wait} (since {:?})", host.id, now.since(wait.since)));
            }
        }
        lines
    }

    pub(crate) fn check_liveness(&self) -> Verdict {
        match self.is_at_rest() {
            Err(why) => fail("liveness", format!("after the world healed: {why}\n{}", self.why(None).join("\n"))),
            Ok(()) if !self.clients.are_done() => fail(
                "liveness",
                format!("after the world healed: {} last operations unanswered", self.clients.unfinished()),
            ),
            Ok(()) => self.check_at_end(),
        }
    }

    pub(crate) fn check_at_end(&self) -> Verdict {
        self.checkers.compare_states(self.time, &self.hosts)?;
        match self.clients.history.check() {
            Ok(_) => Ok(()),
            Err(violation) => fail(violation.checker, violation.text),
        }
    }
}
