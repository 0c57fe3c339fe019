//! The verbs of the scenarios.
//!
//! ```text
//! nodes 3 coordinators 2          n1 n2 n3, c1 c2; everybody hears everybody
//! coordinator c3                  another one starts
//! keyspace n1,n2 n2,n3            a bucket per word, its primary first; as many replicas as in the longest; min 2 (or
//!                                 `keyspace replicas=3 min=1 …`)
//! run 2s                          time passes (also ms); lines that are repeated come once per block
//! kill n1 | revive n1             it neither answers nor hears
//! mute n1 c2 | unmute n1 c2       c2 does not hear n1
//! deaf n1 | hearing n1            pushes are lost
//! cut c1 | mend c1                from the meta group
//! sleep c1 | awake c1             nothing is processed, then everything that came, in order
//! slow c1 | let-go c1             what it proposes (but not its reports) is under way, then arrives in order
//! end n2 b1 t1#7                  where its log ends; `lose n2 b1`: its replica is gone
//! name n4 c                       a new node under this name
//! enlist b1 n3 | seat b1 n3 | renew b1   what the primary does by itself; `again b1 n3`: it enlists one that is back
//! obey                            the primary does what it was told last
//! mark n1 drains                  or goes, or stays; erase n1 b1: of a keyspace that was removed
//! start o1 mark n1 drains; replicas k1 3; min b1 2; remove k1; erased k1
//! start o1 enlist b1 n3; seated b1 n3; hand-over b1 n3; dismiss b1 n1; split b1 b2 0-99
//! begin n1 2                      its process is the second life of its data; a step: restart b1 n1 1 (later than the first)
//! pause o1 | resume o1 | cancel o1
//! leads c1 | follows c1           it runs beside the leader of the meta group, or no longer
//! auto on | auto off              it rebalances by itself; rebalance o1 hand-over b1 n2: what comes of that
//! tell c1                         the meta group's answer arrives, asked for or not
//! why c1 | state | probes on | pushes off
//! ```

use std::sync::Arc;
use std::time::Duration;

use blueprint::{
    BucketId, Change, Command, Durability, Index, Intent, KeyspaceId, Kind, NodeId, OperationId, Position, Rule, Slot,
    SlotSet, Step, Term,
};
use reactor::coordinator::{Input, Order};

use super::{Town, show};

impl Town {
    pub(crate) fn perform(&mut self, verb: &str) -> Result<(), String> {
        let words: Vec<&str> = verb.split_whitespace().collect();
        match words.as_slice() {
            ["nodes", nodes, "coordinators", coordinators] => {
                for id in 1..=number(nodes)? {
                    self.welcome(id, &char::from(b'a' + id as u8 - 1).to_string())?;
                }
                (1..=number(coordinators)?).for_each(|id| self.add_coordinator(id));
            }
            ["coordinator", c] => self.add_coordinator(number(c)?),
            ["keyspace", rest @ ..] => self.keyspace(rest)?,
            ["name", id, name] => self.welcome(number(id)?, name)?,
            ["run", span] => self.run(duration(span)?),
            ["kill", n] => self.node(n)?.up = false,
            ["revive", n] => self.node(n)?.up = true,
            ["mute", n, c] => drop(self.node(n)?.unheard_by.insert(number(c)?)),
            ["unmute", n, c] => drop(self.node(n)?.unheard_by.remove(&number(c)?)),
            ["deaf", n] => self.node(n)?.deaf = true,
            ["hearing", n] => self.node(n)?.deaf = false,
            ["cut", c] => self.seat(c)?.cut = true,
            ["mend", c] => self.seat(c)?.cut = false,
            ["sleep", c] => self.seat(c)?.asleep = true,
            ["awake", c] => {
                self.seat(c)?.asleep = false;
                self.work_off(number(c)?);
            }
            ["slow", c] => self.seat(c)?.slow = true,
            ["let-go", c] => self.let_go(c)?,
            ["end", n, b, at] => drop(self.node(n)?.ends.insert(BucketId(number(b)?), position(at)?)),
            ["lose", n, b] => drop(self.node(n)?.lost.insert(BucketId(number(b)?))),
            ["mark", n, intent] => {
                self.change(Command::Mark { node: NodeId(number(n)?), intent: intention(intent)?, of: None })?;
            }
            ["erase", n, b] => {
                let (node, bucket) = (NodeId(number(n)?), BucketId(number(b)?));
                let Some(Rule::Removed { holders, .. }) = self.meta.blueprint.buckets.get(&bucket).map(|b| &b.rule)
                else {
                    return Err("it is not removed".into());
                };
                let holder = *holders.iter().find(|m| m.node == node).ok_or("it does not hold it")?;
                self.change(Command::Erased { bucket, holder })?;
            }
            ["enlist", b, n] => {
                self.succeed(BucketId(number(b)?), Change::Enlist { node: NodeId(number(n)?) })?;
            }
            ["seat", b, n] => {
                let bucket = BucketId(number(b)?);
                let government = self.meta.blueprint.government(bucket).ok_or("no such bucket")?;
                let candidate = government.named(NodeId(number(n)?)).ok_or("it is not named there")?;
                let change = Change::Seat { candidate, by: government.primary };
                self.succeed(bucket, change)?;
            }
            ["again", b, n] => {
                self.succeed(BucketId(number(b)?), Change::Enlist { node: NodeId(number(n)?) })?;
            }
            ["renew", b] => {
                let bucket = BucketId(number(b)?);
                let primary = self.meta.blueprint.government(bucket).ok_or("no such bucket")?.primary;
                self.succeed(bucket, Change::Renew { primary })?;
            }
            ["merged", bucket, into] => {
                let (absorbed, into) = (BucketId(number(bucket)?), BucketId(number(into)?));
                let at = Position { term: Term(1), index: Index(20) };
                let term = self.meta.blueprint.buckets.get(&into).ok_or("no such bucket")?.term();
                self.change(Command::Merge { absorbed, into, at, term })?;
            }
            ["obey"] => self.obey()?,
            ["start", id, ..] => {
                let list = verb.split_once(id).ok_or("no steps")?.1;
                let steps: Vec<Step> = list.split(';').map(step).collect::<Result<_, _>>()?;
                self.change(Command::StartOperation { id: OperationId(number(id)?), by: "ada".into(), steps })?;
            }
            ["auto", on] => self.change(Command::SetAutoRebalance { on: *on == "on", by: "ada".into() })?,
            ["rebalance", id, ..] => {
                let list = verb.split_once(id).ok_or("no steps")?.1;
                let steps: Vec<Step> = list.split(';').map(step).collect::<Result<_, _>>()?;
                let (id, based_on) = (OperationId(number(id)?), self.meta.blueprint.epoch);
                self.change(Command::Rebalance { id, based_on, steps })?;
            }
            ["begin", n, life] => {
                self.change(Command::Begin { node: NodeId(number(n)?), life: number(life)? })?;
            }
            ["pause", id] => self.change(Command::PauseOperation { id: OperationId(number(id)?) })?,
            ["resume", id] => self.change(Command::ResumeOperation { id: OperationId(number(id)?) })?,
            ["cancel", id] => {
                let why = "not today".into();
                self.change(Command::CancelOperation { id: OperationId(number(id)?), why })?;
            }
            ["why", c] => {
                for wait in self.seat(c)?.machine.waits() {
                    self.line(format!("{c}: {wait} (since {:?})", wait.since));
                }
            }
            ["probes", on] => self.show_probes = *on == "on",
            ["pushes", on] => self.hide_pushes = *on != "on",
            ["tell", c] => {
                let state = Arc::new(self.meta.clone());
                self.inbox(number(c)?).push_back(Input::MetaRead { state });
                self.work_off(number(c)?);
            }
            [verb @ ("leads" | "follows"), c] => {
                self.inbox(number(c)?).push_back(Input::LeadsMeta(*verb == "leads"));
                self.work_off(number(c)?);
            }
            ["state"] => self.state(),
            _ => return Err("there is no such verb".into()),
        }
        Ok(())
    }

    fn welcome(&mut self, id: u64, name: &str) -> Result<(), String> {
        let id = NodeId(id);
        self.change(Command::AddNode { id, name: name.into(), zone: String::new(), addresses: Vec::new() })?;
        self.add_node(id);
        Ok(())
    }

    fn keyspace(&mut self, words: &[&str]) -> Result<(), String> {
        let (mut min_in_sync, mut wanted) = (None, 0);
        let mut placement = Vec::new();
        for word in words {
            match word.split_once('=') {
                Some(("min", min)) => min_in_sync = Some(number(min)? as u8),
                Some(("replicas", replicas)) => wanted = number(replicas)? as usize,
                Some(_) => return Err(format!("a keyspace has no {word}")),
                None => placement.push(word.split(',').map(|n| number(n).map(NodeId)).collect::<Result<Vec<_>, _>>()?),
            }
        }
        let name = format!("k{}", self.meta.blueprint.next_keyspace.0);
        let replicas = placement.iter().map(Vec::len).max().unwrap_or(1).max(wanted) as u8;
        let (kind, durability) = (Kind::Store, Durability::Disk);
        self.change(Command::CreateKeyspace { name, kind, replicas, min_in_sync, durability, placement })
    }

    fn let_go(&mut self, c: &str) -> Result<(), String> {
        let id = number(c)?;
        let seat = self.seat(c)?;
        seat.slow = false;
        for command in std::mem::take(&mut seat.under_way) {
            self.propose(id, &command);
        }
        self.work_off(id);
        Ok(())
    }

    fn succeed(&mut self, bucket: BucketId, change: Change) -> Result<(), String> {
        let replaces = self.meta.blueprint.government(bucket).ok_or("no such bucket")?.term;
        self.change(Command::Succeed { bucket, replaces, change })
    }

    fn obey(&mut self) -> Result<(), String> {
        match self.last_order.take().ok_or("nobody was told anything")? {
            (_, Order::HandOver { bucket, to }) => {
                let government = self.meta.blueprint.government(bucket).ok_or("no such bucket")?;
                let to = government.named(to).ok_or("it is not named there")?;
                let change = Change::HandOver { to, by: government.primary };
                self.succeed(bucket, change)
            }
            (_, Order::Split { bucket, child, slots }) => {
                let at = Position { term: Term(1), index: Index(9) };
                let term = self.meta.blueprint.buckets.get(&bucket).ok_or("no such bucket")?.term();
                self.change(Command::Register { parent: bucket, child, slots, at, term })
            }
        }
    }

    fn state(&mut self) {
        let blueprint = self.meta.blueprint.clone();
        let absent: Vec<String> =
            blueprint.nodes.keys().filter(|n| !blueprint.is_present(**n)).map(|n| n.to_string()).collect();
        let absent = if absent.is_empty() { "nobody".to_owned() } else { absent.join(" ") };
        let alive: Vec<String> = self.meta.reports.coordinators().map(|c| c.to_string()).collect();
        self.lines.push(format!("{}: {absent} departed; alive {}", blueprint.epoch, alive.join(" ")));
        self.lines.extend(blueprint.buckets.values().map(|bucket| format!("  {}", show::bucket(bucket))));
        self.lines.extend(blueprint.operations.values().map(|o| format!("  {}", show::operation(o))));
    }

    fn node(&mut self, word: &str) -> Result<&mut super::Node, String> {
        self.nodes.get_mut(&NodeId(number(word)?)).ok_or_else(|| "there is no such node".into())
    }

    fn seat(&mut self, word: &str) -> Result<&mut super::Seat, String> {
        self.coordinators.get_mut(&number(word)?).ok_or_else(|| "there is no such coordinator".into())
    }
}

fn step(text: &str) -> Result<Step, String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let bucket = BucketId(number(words.get(1).ok_or("a step names a bucket")?)?);
    Ok(match words.as_slice() {
        ["enlist", _, n] => Step::Enlist { bucket, node: NodeId(number(n)?) },
        ["seated", _, n] => Step::AwaitSeated { bucket, node: NodeId(number(n)?) },
        ["hand-over", _, n] => Step::HandOver { bucket, to: NodeId(number(n)?) },
        ["dismiss", _, n] => Step::Dismiss { bucket, node: NodeId(number(n)?) },
        ["merge", _, into] => Step::Merge { bucket, into: BucketId(number(into)?) },
        ["restart", _, n, life] => Step::AwaitRestart { bucket, node: NodeId(number(n)?), life: number(life)? },
        ["split", _, child, range] => {
            let (first, last) = range.split_once('-').ok_or("slots are first-last")?;
            let slots = SlotSet::range(Slot(number(first)? as u16), Slot(number(last)? as u16));
            Step::Split { bucket, child: BucketId(number(child)?), slots }
        }
        ["mark", n, intent] => Step::Mark { node: NodeId(number(n)?), intent: intention(intent)?, was: None },
        ["replicas", k, count] => {
            Step::SetReplicas { keyspace: KeyspaceId(number(k)? as u32), replicas: number(count)? as u8 }
        }
        ["min", _, min] => Step::SetMinimum { bucket, min: number(min)? as u8 },
        ["remove", k] => Step::RemoveKeyspace { keyspace: KeyspaceId(number(k)? as u32) },
        ["erased", k] => Step::AwaitErased { keyspace: KeyspaceId(number(k)? as u32) },
        _ => return Err(format!("there is no step {text}")),
    })
}

fn intention(word: &str) -> Result<Intent, String> {
    match word {
        "stays" => Ok(Intent::Stays),
        "drains" => Ok(Intent::Drains),
        "goes" => Ok(Intent::Goes),
        _ => Err(format!("{word}: it stays, drains or goes")),
    }
}

/// The number in a word such as `n3`.
fn number(word: &str) -> Result<u64, String> {
    word.trim_start_matches(|c: char| !c.is_ascii_digit()).parse().map_err(|_| format!("{word} has no number"))
}

fn position(word: &str) -> Result<Position, String> {
    let (term, index) = word.split_once('#').ok_or("a position is t1#2")?;
    Ok(Position { term: Term(number(term)?), index: Index(number(index)?) })
}

fn duration(word: &str) -> Result<Duration, String> {
    let value = word.trim_end_matches(|c: char| !c.is_ascii_digit());
    let value: u64 = value.parse().map_err(|_| format!("{word} is no time"))?;
    if word.ends_with("ms") { Ok(Duration::from_millis(value)) } else { Ok(Duration::from_secs(value)) }
}
