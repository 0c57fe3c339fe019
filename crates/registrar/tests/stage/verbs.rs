//! What a script can say.
//!
//! | verb | what happens |
//! |---|---|
//! | `config level=durable round=2s part_rows=2 …` | other numbers than the default, before anyone starts |
//! | `nodes n1 n2 n3` | these are present; none is up yet |
//! | `cluster n1 n2 n3` | the same, and all of them start, until everything has settled |
//! | `start n1 [wall=50s]` | a process begins, from what its disk has; its wall clock says what the story's does, or this |
//! | `crash n1` | with all that was not synced |
//! | `wipe n1 as n4` | n1 departed; n4 has its name, and an empty disk |
//! | `update n1 a=1/10s b=2 c-` | one update: a for ten seconds, b for an hour, c removed. They are called u1, u2, … in order |
//! | `deliver [n1->n2 [first\|last\|dup]]` | what is under way on every link, or on one; `dup` delivers the first one and keeps it |
//! | `drop n1->n2 [first\|last]`, `drop n3` | what is under way on a link, or to and from a node, is lost |
//! | `cut n3`, `heal n3` | whatever is sent to or from n3 is lost |
//! | `freeze n3`, `thaw n3` | time passes for the others, not for n3 |
//! | `settle` | everything is delivered until nobody has anything to say; no time passes |
//! | `tick 1s` | time passes, and whoever is due is woken; nothing is delivered |
//! | `run 5s` | the same, and everything is delivered meanwhile |
//! | `slow n1`, `sync n1`, `fast n1` | from now on writes of n1 wait for `sync` |
//! | `rows n1 [of n2]`, `lookup n1 a` | what n1 holds; who has it, how old it is, how long it lasts |
//! | `state n1 …`, `waits n1 …` | how far it is; what it waits for |
//!
//! `… quietly`: nothing is said about it.

use std::time::Duration;

use blueprint::NodeId;
use bytes::Bytes;
use registrar::{Edit, Input, Level, Phase, Ticket};

use super::show::{name, number, span, wait};
use super::{Stage, WALL};

type Done = Result<(), String>;

const LIFE: Duration = Duration::from_secs(3600);

impl Stage {
    pub(crate) fn perform(&mut self, line: &str) -> Done {
        let mut words: Vec<&str> = line.split_whitespace().collect();
        self.is_quiet = words.last() == Some(&"quietly");
        if self.is_quiet {
            words.pop();
        }
        let (verb, rest) = words.split_first().ok_or("no verb")?;
        match (*verb, rest) {
            ("config", settings) => settings.iter().try_for_each(|setting| self.set(setting)),
            ("nodes", ids) => ids.iter().try_for_each(|id| self.add(id)),
            ("cluster", ids) => self.cluster(ids),
            ("start", [id]) => self.start_at(node(id)?, WALL + self.now),
            ("start", [id, wall]) => {
                let wall = wall.strip_prefix("wall=").ok_or("start n1 wall=50s")?;
                self.start_at(node(id)?, duration(wall)?)
            }
            ("crash", [id]) => self.crash(node(id)?),
            ("wipe", [old, "as", new]) => self.wipe(node(old)?, node(new)?),
            ("update", [id, edits @ ..]) => self.update(node(id)?, edits),
            ("deliver", []) => {
                self.deliver_everything();
                Ok(())
            }
            ("deliver", [on, which @ ..]) => self.deliver_some(link(on)?, which),
            ("drop", [on, which @ ..]) => self.drop_some(on, which),
            ("cut", [id]) => self.change(id, |node| node.is_cut_off = true),
            ("heal", [id]) => self.change(id, |node| node.is_cut_off = false),
            ("freeze", [id]) => {
                let now = self.now;
                self.change(id, |node| node.frozen_since = Some(now))
            }
            ("thaw", [id]) => {
                let now = self.now;
                self.change(id, |node| {
                    node.behind += now - node.frozen_since.take().unwrap_or(now);
                })
            }
            ("settle", []) => {
                self.settle();
                Ok(())
            }
            ("tick", [span]) => {
                self.pass(duration(span)?, |_| {});
                Ok(())
            }
            ("run", [span]) => {
                self.pass(duration(span)?, Self::settle);
                Ok(())
            }
            ("slow", [id]) => self.change(id, |node| node.has_slow_disk = true),
            ("fast", [id]) => self.change(id, |node| node.has_slow_disk = false),
            ("sync", [id]) => {
                self.sync(node(id)?);
                Ok(())
            }
            ("rows", [at]) => self.show_rows(node(at)?, None),
            ("rows", [at, "of", owner]) => self.show_rows(node(at)?, Some(node(owner)?)),
            ("lookup", [at, key]) => self.show_lookup(node(at)?, key),
            ("state", ids) => ids.iter().try_for_each(|id| self.show_state(node(id)?)),
            ("waits", ids) => ids.iter().try_for_each(|id| self.show_waits(node(id)?)),
            _ => Err(format!("no such verb: {line}")),
        }
    }

    fn set(&mut self, setting: &str) -> Done {
        let (name, value) = setting.split_once('=').ok_or("name=value")?;
        let count = || value.parse::<usize>().map_err(|error| error.to_string());
        match name {
            "level" if value == "durable" => self.config.level = Level::Durable,
            "longest_life" => self.config.longest_life = duration(value)?,
            "margin" => self.config.margin = duration(value)?,
            "round" => self.config.round = duration(value)?,
            "patience" => self.config.patience = duration(value)?,
            "part_rows" => self.config.part_rows = count()?,
            "pulls" => self.config.pulls = count()?,
            "waiting_updates" => self.config.waiting_updates = count()?,
            _ => return Err(format!("no such setting: {setting}")),
        }
        self.config.check().map_err(str::to_owned)
    }

    fn add(&mut self, id: &str) -> Done {
        self.nodes.entry(node(id)?).or_default();
        for id in self.up() {
            self.feed(id, Input::Peers(self.present()));
        }
        Ok(())
    }

    fn cluster(&mut self, ids: &[&str]) -> Done {
        ids.iter().try_for_each(|id| self.add(id))?;
        ids.iter().try_for_each(|id| self.start_at(node(id)?, WALL + self.now))?;
        self.settle();
        Ok(())
    }

    fn change(&mut self, id: &str, change: impl FnOnce(&mut super::Node)) -> Done {
        self.nodes.get_mut(&node(id)?).map(change).ok_or_else(|| format!("there is no {id}"))
    }

    fn start_at(&mut self, id: NodeId, wall: Duration) -> Done {
        match self.nodes.get(&id) {
            None => Err(format!("there is no {id}")),
            Some(node) if node.machine.is_some() => Err(format!("{id} is up")),
            Some(_) => {
                self.start(id, wall);
                Ok(())
            }
        }
    }

    fn wipe(&mut self, old: NodeId, new: NodeId) -> Done {
        if self.machine(old).is_ok() {
            self.crash(old)?;
        }
        self.nodes.remove(&old).ok_or("there is no such node")?;
        self.nodes.entry(new).or_default();
        for id in self.up() {
            self.feed(id, Input::Peers(self.present()));
        }
        self.start(new, WALL + self.now);
        self.feed(new, Input::Succeeds(old));
        Ok(())
    }

    fn update(&mut self, id: NodeId, edits: &[&str]) -> Done {
        self.machine(id)?;
        self.tickets += 1;
        let edits: Vec<Edit> = edits.iter().map(|text| edit(text)).collect::<Result<_, _>>()?;
        self.feed(id, Input::Update { ticket: Ticket(self.tickets), edits });
        Ok(())
    }

    fn deliver_some(&mut self, link: (NodeId, NodeId), which: &[&str]) -> Done {
        let flight = self.flight.entry(link).or_default();
        let envelopes = match which {
            [] => flight.drain(..).collect(),
            ["first"] => flight.pop_front().into_iter().collect(),
            ["last"] => flight.pop_back().into_iter().collect(),
            ["dup"] => flight.front().cloned().into_iter().collect::<Vec<_>>(),
            _ => return Err("first, last or dup".to_owned()),
        };
        if envelopes.is_empty() {
            return Err("nothing is under way there".to_owned());
        }
        envelopes.into_iter().for_each(|envelope| self.deliver(link, envelope));
        Ok(())
    }

    fn drop_some(&mut self, on: &str, which: &[&str]) -> Done {
        if let Ok(id) = node(on) {
            self.flight.retain(|(from, to), _| *from != id && *to != id);
            return Ok(());
        }
        let flight = self.flight.entry(link(on)?).or_default();
        match which {
            [] => flight.clear(),
            ["first"] => drop(flight.pop_front()),
            ["last"] => drop(flight.pop_back()),
            _ => return Err("first or last".to_owned()),
        }
        Ok(())
    }

    // ---- what can be seen

    fn show_rows(&mut self, at: NodeId, only: Option<NodeId>) -> Done {
        let (machine, now) = (self.machine(at)?, self.clock(at));
        let owners = machine.owners().filter(|owner| only.is_none_or(|only| only == *owner));
        let rows = owners.flat_map(|owner| machine.rows(now, owner));
        let row = |f: registrar::Found| {
            format!("{at}: {} {}={} for {} ({})", f.owner, name(&f.key), name(&f.value), span(f.left), f.number)
        };
        let lines: Vec<String> = rows.map(row).collect();
        self.lines.extend(lines);
        Ok(())
    }

    fn show_lookup(&mut self, at: NodeId, key: &str) -> Done {
        let found = self.machine(at)?.lookup(self.clock(at), key.as_bytes());
        let line = |f: registrar::Found| {
            let reach = if f.is_reachable { "who can be reached" } else { "who cannot be reached" };
            let (age, left) = (span(f.age), span(f.left));
            format!("{at}: {key}={}, by {}, {reach}, {age} old, {left} left", name(&f.value), f.owner)
        };
        let mut lines: Vec<String> = found.map(line).collect();
        if lines.is_empty() {
            lines.push(format!("{at}: nobody has {key}"));
        }
        self.lines.extend(lines);
        Ok(())
    }

    fn show_state(&mut self, id: NodeId) -> Done {
        let machine = self.machine(id)?;
        let phase = match machine.phase() {
            Phase::Starting => "starting",
            Phase::Operating => "operating",
        };
        let complete = if machine.is_complete() { ", complete" } else { "" };
        let known = machine.owners().filter_map(|owner| Some(format!(" {owner} {}", number(machine.known(owner)?))));
        let known: Vec<String> = known.collect();
        let reach = machine.peers().map(|(peer, ok)| format!(" {peer} {}", if ok { "here" } else { "away" }));
        let reach: Vec<String> = reach.collect();
        self.lines.push(format!("{id} {phase}{complete}; knows{}; peers{}", known.join(","), reach.join(",")));
        Ok(())
    }

    fn show_waits(&mut self, id: NodeId) -> Done {
        let (machine, now) = (self.machine(id)?, self.clock(id));
        let line = |w: &registrar::Wait| format!("{id} waits for {}, since {}", wait(w), span(now.since(w.since)));
        let mut lines: Vec<String> = machine.waits().iter().map(line).collect();
        if lines.is_empty() {
            lines.push(format!("{id} waits for nothing"));
        }
        self.lines.extend(lines);
        Ok(())
    }
}

fn node(text: &str) -> Result<NodeId, String> {
    let id = text.strip_prefix('n').and_then(|id| id.parse().ok()).map(NodeId);
    id.ok_or_else(|| format!("not a node: {text}"))
}

fn link(text: &str) -> Result<(NodeId, NodeId), String> {
    let (from, to) = text.split_once("->").ok_or_else(|| format!("not a link: {text}"))?;
    Ok((node(from)?, node(to)?))
}

fn duration(text: &str) -> Result<Duration, String> {
    let number = |digits: &str| digits.parse::<u64>().map_err(|_| format!("not a time: {text}"));
    match (text.strip_suffix("ms"), text.strip_suffix('s')) {
        (Some(millis), _) => number(millis).map(Duration::from_millis),
        (None, Some(seconds)) => number(seconds).map(Duration::from_secs),
        (None, None) => Err(format!("not a time: {text}")),
    }
}

fn edit(text: &str) -> Result<Edit, String> {
    if let Some(key) = text.strip_suffix('-') {
        return Ok(Edit::Remove { key: Bytes::copy_from_slice(key.as_bytes()) });
    }
    let (key, value) = text.split_once('=').ok_or_else(|| format!("neither a=1 nor a-: {text}"))?;
    let (value, life) = match value.split_once('/') {
        Some((value, life)) => (value, duration(life)?),
        None => (value, LIFE),
    };
    let bytes = |text: &str| Bytes::copy_from_slice(text.as_bytes());
    Ok(Edit::Put { key: bytes(key), value: bytes(value), life })
}
