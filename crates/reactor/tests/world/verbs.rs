//! The verbs of the scenarios.
//!
//! ```text
//! nodes n1@a n2@b n3              three nodes, two of them with a zone
//! strangers n9                    a node that was never added
//! keyspace replicas=3 n1,n2 …     one bucket per row, its primary first; min=…
//! meta enlist b1 n4               also drop, seat, dismiss, handover, usurp, renew, disown, min; dismiss and usurp take a fate
//! meta depart n3                  also return, mark n3 drains, remove k1, split b1 at t1#5
//! meta operate b1 n4              an operation is to enlist and seat it; `meta pause o1`, `meta resume o1`
//! learn n1 n2                     the newest blueprint reaches them; `all` for everyone
//! react n1 n2                     what they would do, and what they wait for
//! carry n1 n2                     the same, and it is done
//! settle                          everyone learns, reacts, does; the phasers do their part; until nothing is left to do
//! phasers                         whoever was told follows, leads and serves as its government says
//! hold n1 b1 …                    facts about a replica: see `set_fact`
//! lose n1 b1                      the data is gone;  restart n1: the process is
//! reboot n1 b1                    the operating system restarted: the end of what it answered may be missing
//! doubt n1                        what was named until now may have been there, and its disk does not say
//! slow n1 / disk n1               what is written stays in the air / is on disk
//! answer n1                       its read of the blueprint is answered
//! cut n3 / heal n3                out of everyone's sight, and back
//! run 5s                          time passes
//! operation b1 [ends]             an operation speaks of it
//! limits grace=1s …               see `Limits`
//! why n1                          the ledger
//! ```

use std::str::FromStr;
use std::time::Duration;

use blueprint::{
    BucketId, Change, Command, Durability, Epoch, Fate, Incarnation, Index, Instant, Intent, KeyspaceId, Kind, Member,
    NodeId, OperationId, Position, Step, Term,
};
use reactor::{Growth, HandOver, Holding, Leading, Parting, Peer, Role};

use super::{Asked, Home, World, leading, show};

/// More rounds than any scenario needs: beyond this something is done for ever.
const MOST_ROUNDS: usize = 40;

impl World {
    pub(crate) fn perform(&mut self, verb: &str) -> Result<(), String> {
        let words: Vec<&str> = verb.split_whitespace().collect();
        let (first, rest) = words.split_first().ok_or("an empty line is no verb")?;
        match *first {
            "nodes" => rest.iter().try_for_each(|word| self.add_node(word))?,
            "strangers" => {
                for word in rest {
                    self.homes.insert(NodeId(number(word, "n")?), Home::default());
                }
            }
            "keyspace" => self.create_keyspace(rest)?,
            "meta" => self.change(rest)?,
            "learn" => self.some(rest)?.into_iter().for_each(|node| self.learn(node)),
            "react" => self.some(rest)?.into_iter().for_each(|node| self.show_reaction(node)),
            "carry" => self.some(rest)?.into_iter().for_each(|node| self.carry(node)),
            "settle" => self.settle()?,
            "phasers" => self.play_phasers(),
            "hold" => self.hold(rest)?,
            "lose" => {
                let (node, bucket) = (number(rest[0], "n")?, number(rest[1], "b")?);
                let home = self.homes.get_mut(&NodeId(node)).ok_or("no such node")?;
                let lost = home.replicas.remove(&BucketId(bucket)).ok_or("nothing is there to lose")?;
                home.gone.insert(BucketId(bucket), lost.member.incarnation);
            }
            "doubt" => {
                let newest = self.blueprint.epoch;
                self.home(rest)?.doubt = newest;
            }
            "reboot" => {
                let (node, bucket) = (number(rest[0], "n")?, number(rest[1], "b")?);
                let home = self.homes.get_mut(&NodeId(node)).ok_or("no such node")?;
                let mut holding = home.replicas.remove(&BucketId(bucket)).ok_or("nothing is there to doubt")?;
                (holding.role, holding.known) = (Role::Following, Epoch(0));
                home.aside.insert(BucketId(bucket), holding);
            }
            "restart" => self.some(rest)?.into_iter().for_each(|node| self.restart(node)),
            "slow" => self.home(rest)?.slow_disk = true,
            "disk" => {
                let home = self.home(rest)?;
                home.slow_disk = false;
                home.replicas.values_mut().for_each(|h| h.durable = true);
            }
            "answer" => {
                let newest = self.blueprint.clone();
                let home = self.home(rest)?;
                let Asked::UnderWay(begun) = home.read else { return Err("it has not asked".into()) };
                home.read = Asked::Answered(begun, newest);
            }
            "cut" => self.cut.extend(self.some(rest)?),
            "leave" => self.leaving.extend(self.some(rest)?),
            "heal" => {
                let healed = self.some(rest)?;
                self.cut.retain(|node| !healed.contains(node));
            }
            "run" => self.now = self.now + duration(rest.first().ok_or("for how long?")?)?,
            "operation" => {
                let bucket = BucketId(number(rest.first().ok_or("of which bucket?")?, "b")?);
                self.operated.remove(&bucket);
                self.operated.extend((rest.get(1) != Some(&"ends")).then_some(bucket));
            }
            "limits" => rest.iter().try_for_each(|word| self.set_limit(word))?,
            "why" => {
                let node = self.some(rest)?[0];
                let sentences = self.homes[&node].ledger.describe(self.now);
                self.lines.extend(sentences.into_iter().map(|sentence| format!("{node} {sentence}")));
            }
            _ => return Err(format!("{first}: no such verb")),
        }
        Ok(())
    }

    pub(crate) fn take_lines(&mut self) -> Vec<String> {
        std::mem::take(&mut self.lines)
    }

    fn some(&self, words: &[&str]) -> Result<Vec<NodeId>, String> {
        match words {
            ["all"] => Ok(self.homes.keys().copied().collect()),
            [] => Err("who?".into()),
            words => words.iter().map(|word| Ok(NodeId(number(word, "n")?))).collect(),
        }
    }

    fn home(&mut self, words: &[&str]) -> Result<&mut Home, String> {
        let node = NodeId(number(words.first().ok_or("who?")?, "n")?);
        self.homes.get_mut(&node).ok_or_else(|| format!("{node} does not exist"))
    }

    fn add_node(&mut self, word: &str) -> Result<(), String> {
        let (name, zone) = word.split_once('@').unwrap_or((word, ""));
        let id = NodeId(number(name, "n")?);
        let command = Command::AddNode { id, name: name.into(), zone: zone.into(), addresses: Vec::new() };
        self.blueprint.apply(&command).map_err(|why| why.to_string())?;
        self.homes.insert(id, Home::default());
        Ok(())
    }

    fn create_keyspace(&mut self, words: &[&str]) -> Result<(), String> {
        let (mut replicas, mut min_in_sync, mut placement) = (0, None, Vec::new());
        for word in words {
            match word.split_once('=') {
                Some(("replicas", value)) => replicas = parse(value)?,
                Some(("min", value)) => min_in_sync = Some(parse(value)?),
                Some(_) => return Err(format!("{word}: unknown")),
                None => placement
                    .push(word.split(',').map(|n| Ok(NodeId(number(n, "n")?))).collect::<Result<Vec<_>, String>>()?),
            }
        }
        let (kind, durability, name) = (Kind::Store, Durability::Disk, format!("k{}", self.blueprint.next_keyspace.0));
        self.propose(&Command::CreateKeyspace { name, kind, replicas, min_in_sync, durability, placement });
        Ok(())
    }

    fn change(&mut self, words: &[&str]) -> Result<(), String> {
        let command = match *words {
            ["depart", node] => Command::Depart { node: NodeId(number(node, "n")?) },
            ["return", node] => Command::Return { node: NodeId(number(node, "n")?) },
            ["remove", keyspace] => Command::RemoveKeyspace {
                keyspace: KeyspaceId(u32::try_from(number(keyspace, "k")?).map_err(|e| e.to_string())?),
            },
            ["mark", node, intent] => {
                let intent = match intent {
                    "stays" => Intent::Stays,
                    "drains" => Intent::Drains,
                    "goes" => Intent::Goes,
                    other => return Err(format!("{other}: it stays, drains or goes")),
                };
                Command::Mark { node: NodeId(number(node, "n")?), intent, of: None }
            }
            ["operate", bucket, node] => {
                let (bucket, node) = (BucketId(number(bucket, "b")?), NodeId(number(node, "n")?));
                let steps = vec![Step::Enlist { bucket, node }, Step::AwaitSeated { bucket, node }];
                Command::StartOperation { id: self.blueprint.next_operation, by: "ada: another copy".into(), steps }
            }
            ["pause", id] => Command::PauseOperation { id: OperationId(number(id, "o")?) },
            ["resume", id] => Command::ResumeOperation { id: OperationId(number(id, "o")?) },
            ["reserve"] => Command::ReserveBucket { parent: BucketId(1) },
            ["split", parent, "at", at] => {
                let parent = BucketId(number(parent, "b")?);
                let child = match self.blueprint.reserved.keys().next() {
                    Some(child) => *child,
                    None => self
                        .blueprint
                        .apply(&Command::ReserveBucket { parent })
                        .map_err(|e| e.to_string())?
                        .bucket
                        .expect("reserved"),
                };
                let slots = self.blueprint.buckets.get(&parent).ok_or("no such bucket")?.slots.split_half().1;
                Command::Register {
                    parent,
                    child,
                    slots,
                    at: position(at)?,
                    term: self.blueprint.buckets[&parent].term(),
                }
            }
            ["bind", absorbed, into] => {
                let (absorbed, into) = (BucketId(number(absorbed, "b")?), BucketId(number(into, "b")?));
                let term = |id| self.blueprint.government(id).map(|g| g.term).ok_or("it has no government");
                Command::Bind { absorbed, into, replaces: (term(absorbed)?, term(into)?) }
            }
            ["merge", absorbed, into, "at", at] => {
                let (absorbed, into) = (BucketId(number(absorbed, "b")?), BucketId(number(into, "b")?));
                let term = self.blueprint.buckets.get(&into).ok_or("no such bucket")?.term();
                Command::Merge { absorbed, into, at: position(at)?, term }
            }
            [what, bucket, ref rest @ ..] => {
                let bucket = BucketId(number(bucket, "b")?);
                let government = self.blueprint.government(bucket).ok_or("it has no government")?;
                let replaces = government.term;
                let node = || -> Result<NodeId, String> { Ok(NodeId(number(rest.first().ok_or("whom?")?, "n")?)) };
                let member = || node().and_then(|n| government.named(n).ok_or_else(|| format!("{n} is not named")));
                let fate = match rest.get(1) {
                    None => Fate::Leaves,
                    Some(&"stalled") => Fate::Stalled,
                    Some(&"lost") => Fate::Lost,
                    Some(other) => return Err(format!("{other}: no such fate")),
                };
                let by = government.primary;
                let change = match what {
                    "enlist" => Change::Enlist { node: node()? },
                    "drop" => Change::Drop { candidate: member()? },
                    "seat" => Change::Seat { candidate: member()?, by },
                    "dismiss" => Change::Dismiss { secondary: member()?, fate },
                    "handover" => Change::HandOver { to: member()?, by },
                    "usurp" => Change::Usurp { to: member()?, fate },
                    "renew" => Change::Renew { primary: by },
                    "disown" => Change::Disown { heir: member()? },
                    "min" => Change::SetMinInSync { min: parse(rest[0])? },
                    _ => return Err(format!("meta {what}: unknown")),
                };
                Command::Succeed { bucket, replaces, change }
            }
            _ => return Err("meta what?".into()),
        };
        self.propose(&command);
        Ok(())
    }

    fn learn(&mut self, node: NodeId) {
        let newest = self.blueprint.clone();
        self.homes.get_mut(&node).expect("it exists").blueprint = newest;
    }

    fn show_reaction(&mut self, node: NodeId) {
        let reaction = self.react(node);
        self.lines.extend(reaction.acts.iter().map(|act| show::act(node, act)));
        self.lines.extend(reaction.waits.iter().map(|wait| show::wait(node, wait)));
    }

    fn carry(&mut self, node: NodeId) {
        let reaction = self.react(node);
        for act in &reaction.acts {
            self.lines.push(show::act(node, act));
        }
        self.lines.extend(reaction.waits.iter().map(|wait| show::wait(node, wait)));
        self.carry_out(node, &reaction);
    }

    /// Shows what the meta group accepted, and nothing else.
    fn settle(&mut self) -> Result<(), String> {
        let nodes: Vec<NodeId> = self.homes.keys().copied().collect();
        for _ in 0..MOST_ROUNDS {
            let mut quiet = true;
            for node in &nodes {
                if !self.cut.contains(node) {
                    self.learn(*node);
                }
                let reaction = self.react(*node);
                quiet &= reaction.acts.is_empty();
                self.carry_out(*node, &reaction);
                let newest = self.blueprint.clone();
                let home = self.homes.get_mut(node).expect("it exists");
                if let Asked::UnderWay(begun) = home.read {
                    home.read = Asked::Answered(begun, newest);
                }
                self.play_phasers();
            }
            if quiet {
                return Ok(());
            }
        }
        Err("something is done again and again".into())
    }

    fn restart(&mut self, node: NodeId) {
        let home = self.homes.get_mut(&node).expect("it exists");
        home.blueprint = blueprint::Blueprint::new();
        home.read = Asked::Nothing;
        (home.marks, home.ledger) = Default::default();
        for holding in home.replicas.values_mut() {
            (holding.known, holding.role) = (Epoch(0), Role::Following);
        }
    }

    fn hold(&mut self, words: &[&str]) -> Result<(), String> {
        let [node, bucket, facts @ ..] = words else { return Err("hold n1 b1 …".into()) };
        let (node, bucket) = (NodeId(number(node, "n")?), BucketId(number(bucket, "b")?));
        let now = self.now;
        let home = self.homes.get_mut(&node).ok_or("no such node")?;
        let government = home.blueprint.government(bucket).cloned();
        let named =
            government.as_ref().and_then(|g| g.named(node)).unwrap_or(Member { node, incarnation: Incarnation(1) });
        let holding = home.replicas.entry(bucket).or_insert_with(|| Holding {
            durable: true,
            known: home.blueprint.epoch,
            ..Holding::founded(named, 0, now)
        });
        for fact in facts {
            if let ("leads" | "serves", Some(government)) = (*fact, &government) {
                let serving = *fact == "serves";
                holding.promised = holding.promised.max(government.term);
                holding.role = Role::Leading(Leading { serving, ..leading(holding, government, now) });
            } else {
                set_fact(holding, fact, now)?;
            }
        }
        Ok(())
    }

    fn set_limit(&mut self, word: &str) -> Result<(), String> {
        let (name, value) = word.split_once('=').ok_or("name=value")?;
        match name {
            "grace" => self.limits.grace = duration(value)?,
            "patience" => self.limits.read_patience = duration(value)?,
            "delay" => self.limits.recovery_delay = duration(value)?,
            "recoveries" => self.limits.recoveries = parse(value)?,
            "per_node" => self.limits.recoveries_per_node = parse(value)?,
            "silence" => self.limits.silence = duration(value)?,
            _ => return Err(format!("{name}: no such limit")),
        }
        self.limits.check().map_err(Into::into)
    }
}

/// `follows` · `restarted` · `ascends=300ms` (from now) · `leads`, `serves` (with everyone level) · `durable=no` · `promise=unsafe`
/// · `incarnation=4` `promised=3` `known=7` `commit=5` `last=t2#6` `missing=12` `heard=5s` (ago) ·
/// `split=b2@t1#5:applied:registered:forked` · `frozen` `owed=b1` `awaits=b2` · of a primary: `term=3` `reign=5` `reads=no` `succession` `growth=joint:n4/7:5`
/// `handover=draining:n2/3:told` `peer=n2/3:upto=5:missing=2:lease=no:heard=5s`
fn set_fact(holding: &mut Holding, fact: &str, now: Instant) -> Result<(), String> {
    let (name, value) = fact.split_once('=').unwrap_or((fact, ""));
    match name {
        "follows" => holding.role = Role::Following,
        "restarted" => holding.role = Role::Restarted { term: holding.promised },
        "ascends" => holding.role = Role::Ascending { term: holding.promised, until: now + duration(value)? },
        "durable" => holding.durable = value != "no",
        "promise" => holding.promise_safe = value != "unsafe",
        "incarnation" => holding.member.incarnation = Incarnation(parse(value)?),
        "promised" => holding.promised = Term(parse(value)?),
        "known" => holding.known = Epoch(parse(value)?),
        "commit" => (holding.commit, holding.applied) = (Index(parse(value)?), Index(parse(value)?)),
        "last" => holding.last = position(value)?,
        "missing" => holding.missing = parse(value)?,
        "heard" => holding.heard = now - duration(value)?,
        "frozen" => holding.frozen = true,
        "owed" => holding.owed_to = (value != "no").then(|| number(value, "b").map(BucketId)).transpose()?,
        "awaits" => holding.awaits = (value != "no").then(|| number(value, "b").map(BucketId)).transpose()?,
        "split" => {
            let (child, rest) = value.split_once('@').ok_or("b2@t1#5")?;
            let mut words = rest.split(':');
            let at = position(words.next().unwrap_or_default())?;
            let words: Vec<&str> = words.collect();
            let is = |word| words.contains(&word);
            let child = BucketId(number(child, "b")?);
            holding.splits.retain(|p| p.child != child);
            holding.splits.push(Parting {
                child,
                at,
                applied: is("applied"),
                registered: is("registered"),
                forked: is("forked"),
            });
        }
        _ => {
            let Role::Leading(leading) = &mut holding.role else { return Err(format!("{fact}: it does not lead")) };
            set_fact_of_primary(leading, name, value, now)?;
        }
    }
    Ok(())
}

fn set_fact_of_primary(leading: &mut Leading, name: &str, value: &str, now: Instant) -> Result<(), String> {
    let words: Vec<&str> = value.split(':').collect();
    match (name, &words[..]) {
        ("term", _) => leading.term = Term(parse(value)?),
        ("reign", _) => leading.reign = Index(parse(value)?),
        ("reads", _) => leading.reads_until = if value == "no" { now } else { Instant::NEVER },
        ("succession", _) => leading.succession = true,
        ("growth", ["asking", who]) => leading.growth = Growth::Asking { candidate: member(who)? },
        ("growth", ["joint", who, level]) => {
            leading.growth = Growth::Joint { candidate: member(who)?, level: Index(parse(level)?) };
        }
        ("growth", ["proposed", who]) => leading.growth = Growth::Proposed { candidate: member(who)? },
        ("handover", ["draining", who, told @ ..]) => {
            let until = now + Duration::from_millis(500);
            leading.hand_over = HandOver::Draining { to: member(who)?, told: !told.is_empty(), until };
        }
        ("handover", ["proposed", who]) => leading.hand_over = HandOver::Proposed { to: member(who)? },
        ("peer", [who, facts @ ..]) => {
            let who = member(who)?;
            let peer = leading.peers.iter_mut().find(|p| p.member == who).ok_or_else(|| format!("{who}: no peer"))?;
            facts.iter().try_for_each(|fact| set_fact_of_peer(peer, fact, now))?;
        }
        _ => return Err(format!("{name}={value}: no such fact")),
    }
    Ok(())
}

fn set_fact_of_peer(peer: &mut Peer, fact: &str, now: Instant) -> Result<(), String> {
    let (name, value) = fact.split_once('=').ok_or("fact=value")?;
    match name {
        "upto" => peer.upto = if value == "no" { None } else { Some(Index(parse(value)?)) },
        "missing" => peer.missing = parse(value)?,
        "lease" => peer.lease = if value == "no" { now } else { Instant::NEVER },
        "heard" => peer.heard = now - duration(value)?,
        _ => return Err(format!("{fact}: no such fact")),
    }
    Ok(())
}

fn parse<T: FromStr<Err: std::fmt::Display>>(text: &str) -> Result<T, String> {
    text.parse().map_err(|why| format!("{text}: {why}"))
}

fn number(text: &str, prefix: &str) -> Result<u64, String> {
    parse(text.strip_prefix(prefix).ok_or_else(|| format!("{text}: expected {prefix}…"))?)
}

/// `n4/7`.
fn member(text: &str) -> Result<Member, String> {
    let (node, incarnation) = text.split_once('/').ok_or_else(|| format!("{text}: expected n4/7"))?;
    Ok(Member::new(number(node, "n")?, parse(incarnation)?))
}

/// `t1#5`.
fn position(text: &str) -> Result<Position, String> {
    let (term, index) = text.split_once('#').ok_or_else(|| format!("{text}: expected t1#5"))?;
    Ok(Position::new(number(term, "t")?, parse(index)?))
}

fn duration(text: &str) -> Result<Duration, String> {
    if let Some(ms) = text.strip_suffix("ms") {
        return Ok(Duration::from_millis(parse(ms)?));
    }
    Ok(Duration::from_secs(parse(text.strip_suffix('s').ok_or_else(|| format!("{text}: expected 5s or 200ms"))?)?))
}
