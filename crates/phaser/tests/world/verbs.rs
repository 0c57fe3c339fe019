//! What a script can say.
//!
//! | verb | what happens |
//! |---|---|
//! | `config lease=400ms backlog=2 …` | other numbers than the default, before `cluster` |
//! | `cluster nodes=3 min=2 [slots=0-3]` | a first start, up to where n1 serves; `… fresh` stops before anyone saw the blueprint |
//! | `write n1 a b@2` | writes, of one batch; `@2` is the slot (0 when not said) |
//! | `read n1 [@2]` | reads are called r1, r2, … in order |
//! | `deliver [n1->n2 [first\|last\|dup]]` | what is under way on every link, or on one; `dup` delivers the first one and keeps it |
//! | `delay n1->n2 [first\|last\|dup]`, `arrive n1->n2` | what is under way on a link (`dup`: a copy of the first one) stays behind, and arrives one by one when the script says so |
//! | `drop n1->n2 [first\|last]`, `drop n3` | what is under way on a link, or to and from a node, is lost |
//! | `cut n3`, `heal n3` | nothing passes to or from n3 (what is under way waits) |
//! | `settle [with meta]` | everything is delivered until nobody has anything to say; no time passes |
//! | `tick 100ms [n2=90ms]` | time passes, on n2 less of it; whoever is due is woken, once |
//! | `run 1s [with meta]` | time passes in steps of 10 ms, and everything settles in between |
//! | `slow n2`, `sync n2`, `fast n2` | from now on writes of n2 wait for `sync`; `sync n2 first`: only the oldest one is safe |
//! | `crash n2 [lose=all\|none\|1,3]`, `restart n2` | of what was not synced all, none or the 1st and 3rd record are lost |
//! | `crash n2 forget=2` | the operating system restarts (level `memory`): the last two records are lost, though it said that they were safe |
//! | `erase n3` | its replica is gone for good; named again, it begins with nothing |
//! | `meta enlist n4`, `drop n4`, `dismiss n3 [stalled\|lost]`, `usurp n2 [lost]`, `renew n1`, `disown n3`, `min 1` | the blueprint changes |
//! | `meta accept`, `meta refuse`, `meta lose [8]` | what becomes of the oldest proposal (or proposals) |
//! | `meta elsewhere` | the blueprint changes, but nothing about these buckets |
//! | `meta register` | the blueprint learns of the oldest split |
//! | `view n1 n2`, `view all` | they see the blueprint as it is now |
//! | `told n1` | its oldest question is answered |
//! | `handover n1 to n2`, `split n1 b2 2-3` | what operations ask of a primary |
//! | `throttle n1 n3=20 [n4=0]` | how many bytes per second n1 is to fill them with; whoever is not named is free |
//! | `wall n1 1h` | n1's wall clock stands so far ahead of its monotonic one |
//! | `show clocks` | entries with their clock, from here on |
//! | `state [n1 …]`, `tables [n1 …]` | what can be seen from outside |
//!
//! `… quietly`: only what clients and operators would notice. `n1.b2` is n1's replica of the child b2.

use std::collections::BTreeMap;
use std::time::Duration;

use blueprint::{BucketId, Change, Fate, Government, Member, NodeId, Slot, SlotSet};
use bytes::Bytes;
use phaser::{Envelope, Input};

use super::{Actor, FIRST_BUCKET, World};

type Done = Result<(), String>;

impl World {
    pub(crate) fn perform(&mut self, line: &str) -> Done {
        let mut words: Vec<&str> = line.split_whitespace().collect();
        self.is_quiet = words.last() == Some(&"quietly");
        if self.is_quiet {
            words.pop();
        }
        let with_meta = words.ends_with(&["with", "meta"]);
        if with_meta {
            words.truncate(words.len() - 2);
        }
        let (verb, rest) = words.split_first().ok_or("no verb")?;
        match (*verb, rest) {
            ("config", settings) => settings.iter().try_for_each(|setting| self.set(setting)),
            ("cluster", options) => self.cluster(options),
            ("write", [who, what @ ..]) => self.write(actor(who)?, what),
            ("read", [who, slot @ ..]) => self.read(actor(who)?, slot),
            ("deliver", []) => {
                self.deliver_everything();
                Ok(())
            }
            ("deliver", [on, which @ ..]) => self.deliver_some(link(on)?, which),
            ("delay", [on, which @ ..]) => {
                let (link, which) = (link(on)?, self.choose(link(on)?, which)?);
                self.delayed.entry(link).or_default().extend(which);
                Ok(())
            }
            ("arrive", [on]) => {
                let oldest = self.delayed.entry(link(on)?).or_default().pop_front();
                self.deliver(link(on)?, vec![oldest.ok_or("nothing was delayed there")?]);
                Ok(())
            }
            ("drop", [on, which @ ..]) => self.drop_some(on, which),
            ("cut", [who]) => self.node(who).map(|node| node.is_cut_off = true),
            ("heal", [who]) => self.node(who).map(|node| node.is_cut_off = false),
            ("settle", []) => {
                self.settle(with_meta);
                Ok(())
            }
            ("tick", [span, odd @ ..]) => self.tick(span, odd),
            ("run", [span]) => {
                self.run(duration(span)?, with_meta);
                Ok(())
            }
            ("slow", [who]) => self.node(who).map(|node| node.has_slow_disk = true),
            ("fast", [who]) => {
                self.node(who)?.has_slow_disk = false;
                self.sync_node(node_id(who)?);
                Ok(())
            }
            ("sync", [who]) if who.contains('.') => {
                self.sync(actor(who)?);
                self.follow_up();
                Ok(())
            }
            ("sync", [who]) => {
                self.sync_node(node_id(who)?);
                Ok(())
            }
            ("sync", [who, "first"]) => {
                self.sync_first(actor(who)?);
                Ok(())
            }
            ("crash", [who, lose @ ..]) => self.crash_node(node_id(who)?, lose),
            ("erase", [who]) => {
                self.replicas.remove(&actor(who)?).map(|_| ()).ok_or_else(|| "it has nothing".to_owned())
            }
            ("restart", [who]) => self.restart_node(node_id(who)?),
            ("meta", what) => self.meta_verb(what),
            ("view", who) => {
                for actor in self.those(who)? {
                    self.view(actor);
                }
                Ok(())
            }
            ("told", [who]) => self.tell(actor(who)?),
            ("handover", [from, "to", to]) => {
                self.feed(actor(from)?, [Input::HandOver { to: node_id(to)? }]);
                Ok(())
            }
            ("split", [who, child, slots]) => {
                self.feed(actor(who)?, [Input::Split { child: bucket_id(child)?, slots: slot_set(slots)? }]);
                Ok(())
            }
            ("throttle", [who, rates @ ..]) => {
                let rate = |word: &&str| {
                    let (node, rate) = word.split_once('=').ok_or("n3=20")?;
                    Ok((node_id(node)?, rate.parse().map_err(|_| "bytes per second")?))
                };
                let rates = rates.iter().map(rate).collect::<Result<Vec<_>, String>>()?;
                self.feed(actor(who)?, [Input::Throttle { rates }]);
                Ok(())
            }
            ("wall", [who, ahead]) => self.set_wall(node_id(who)?, duration(ahead)?),
            ("show", ["clocks"]) => {
                self.shows_clocks = true;
                Ok(())
            }
            ("state", who) => {
                for actor in self.those(who)? {
                    let line = self.state(actor);
                    self.lines.push(line);
                }
                Ok(())
            }
            ("tables", who) => {
                for actor in self.those(who)? {
                    let line = self.tables(actor);
                    self.lines.push(line);
                }
                Ok(())
            }
            _ => Err("there is no such verb: see tests/world/verbs.rs".to_owned()),
        }
    }

    fn set(&mut self, setting: &str) -> Done {
        let (name, value) = setting.split_once('=').ok_or("a setting is name=value")?;
        let number = || value.parse::<u64>().map_err(|why| why.to_string());
        let config = &mut self.config;
        match name {
            "lease" => config.lease = duration(value)?,
            "margin" => config.margin = duration(value)?,
            "beacon" => config.beacon = duration(value)?,
            "retry" => config.retry = duration(value)?,
            "stall" => config.stall = duration(value)?,
            "seat_delay" => config.seat_delay = duration(value)?,
            "drain_budget" => config.drain_budget = duration(value)?,
            "patience" => config.patience = duration(value)?,
            "backlog" => config.backlog = number()? as usize,
            "frame_entries" => config.frame_entries = number()? as usize,
            "frame_bytes" => config.frame_bytes = number()? as usize,
            "window_entries" => config.window_entries = number()?,
            "image_bytes" => config.image_bytes = number()? as usize,
            "images_in_flight" => config.images_in_flight = number()? as usize,
            "fill_rate" => config.fill_rate = number()?,
            "checkpoint_every" => config.checkpoint_every = number()?,
            "keep_entries" => config.keep_entries = number()?,
            _ => return Err(format!("there is no setting {name}")),
        }
        config.check().map_err(str::to_owned)
    }

    fn cluster(&mut self, options: &[&str]) -> Done {
        let (mut nodes, mut min, mut slots, mut fresh) = (3, 2, SlotSet::range(Slot(0), Slot(3)), false);
        for option in options {
            match option.split_once('=') {
                Some(("nodes", value)) => nodes = value.parse::<u64>().map_err(|why| why.to_string())?,
                Some(("min", value)) => min = value.parse().map_err(|why| format!("{why}"))?,
                Some(("slots", value)) => slots = slot_set(value)?,
                None if *option == "fresh" => fresh = true,
                _ => return Err(format!("there is no option {option}")),
            }
        }
        let government = Government::first(Member::new(1, 1), (2..=nodes).map(|n| Member::new(n, 1)).collect(), min);
        self.meta.begin(government.clone(), slots.clone());
        self.show_government(FIRST_BUCKET);
        self.is_quiet = !fresh;
        for me in government.members() {
            self.add_node(me.node);
            self.found_empty(Actor { bucket: FIRST_BUCKET, node: me.node }, me, &slots, slots.clone());
        }
        if !fresh {
            for actor in self.actors() {
                self.view(actor);
            }
            self.settle(false);
        }
        Ok(())
    }

    fn write(&mut self, actor: Actor, what: &[&str]) -> Done {
        let mut inputs = Vec::new();
        for word in what {
            let (body, slot) = word.split_once('@').unwrap_or((word, "0"));
            let ticket = self.ticket((*word).to_owned());
            inputs.push(Input::Write { ticket, slot: slot_number(slot)?, body: Bytes::from(body.to_owned()) });
        }
        self.feed(actor, inputs);
        Ok(())
    }

    fn read(&mut self, actor: Actor, slot: &[&str]) -> Done {
        let slot = slot.first().map_or(Ok(Slot(0)), |slot| slot_number(slot.trim_start_matches('@')))?;
        let number = 1 + self.requests.iter().filter(|name| name.starts_with('r')).count();
        let name = if slot == Slot(0) { format!("r{number}") } else { format!("r{number}@{slot}") };
        let ticket = self.ticket(name);
        self.feed(actor, [Input::Read { ticket, slot }]);
        Ok(())
    }

    fn choose(&mut self, link: (Actor, Actor), which: &[&str]) -> Result<Vec<Envelope>, String> {
        let queue = self.flight.entry(link).or_default();
        match which {
            [] => Ok(queue.drain(..).collect()),
            ["first"] => Ok(queue.pop_front().into_iter().collect()),
            ["last"] => Ok(queue.pop_back().into_iter().collect()),
            ["dup"] => Ok(queue.front().cloned().into_iter().collect()),
            _ => Err("which of them? first, last, dup, or all of them".to_owned()),
        }
    }

    fn deliver_some(&mut self, link: (Actor, Actor), which: &[&str]) -> Done {
        let chosen = self.choose(link, which)?;
        if chosen.is_empty() {
            self.lines.push(format!("nothing is under way from {} to {}", link.0, link.1));
        } else {
            self.deliver(link, chosen);
        }
        Ok(())
    }

    fn drop_some(&mut self, on: &str, which: &[&str]) -> Done {
        if !on.contains("->") {
            let node = node_id(on)?;
            self.flight.retain(|(from, to), _| from.node != node && to.node != node);
            return Ok(());
        }
        let queue = self.flight.entry(link(on)?).or_default();
        match which {
            [] => queue.clear(),
            ["first"] => drop(queue.pop_front()),
            ["last"] => drop(queue.pop_back()),
            _ => return Err("which of them? first, last, or all of them".to_owned()),
        }
        Ok(())
    }

    fn tick(&mut self, span: &str, odd: &[&str]) -> Done {
        let mut odds = BTreeMap::new();
        for word in odd {
            let (who, span) = word.split_once('=').ok_or("n2=90ms")?;
            odds.insert(node_id(who)?, duration(span)?);
        }
        self.pass(duration(span)?, &odds);
        Ok(())
    }

    fn set_wall(&mut self, node: NodeId, ahead: Duration) -> Done {
        self.add_node(node);
        self.nodes.get_mut(&node).expect("just added").wall = Some(ahead);
        for actor in self.actors().into_iter().filter(|a| a.node == node) {
            self.tell_wall(actor);
            self.end_batch(actor);
        }
        Ok(())
    }

    fn sync_node(&mut self, node: NodeId) {
        for actor in self.actors().into_iter().filter(|a| a.node == node) {
            self.sync(actor);
        }
        self.follow_up();
    }

    fn crash_node(&mut self, node: NodeId, lose: &[&str]) -> Done {
        if let [forget] = lose
            && let Some(count) = forget.strip_prefix("forget=")
        {
            let count = count.parse().map_err(|_| "a number".to_owned())?;
            self.actors().into_iter().filter(|a| a.node == node).for_each(|actor| self.forget(actor, count));
            return Ok(());
        }
        let lost: Option<Vec<usize>> = match lose {
            [] | ["lose=all"] => None,
            ["lose=none"] => Some(Vec::new()),
            [which] => {
                let which = which.strip_prefix("lose=").ok_or("lose=all, lose=none or lose=1,3")?;
                Some(which.split(',').map(|n| n.parse().map_err(|_| "a number".to_owned())).collect::<Result<_, _>>()?)
            }
            _ => return Err("lose=all, lose=none or lose=1,3".to_owned()),
        };
        for actor in self.actors().into_iter().filter(|a| a.node == node) {
            self.crash(actor, |place| lost.as_ref().is_some_and(|lost| !lost.contains(&(place + 1))));
        }
        Ok(())
    }

    fn restart_node(&mut self, node: NodeId) -> Done {
        for actor in self.actors().into_iter().filter(|a| a.node == node) {
            if self.is_up(actor) {
                return Err("it is not down".to_owned());
            }
            self.restart(actor);
        }
        Ok(())
    }

    fn meta_verb(&mut self, what: &[&str]) -> Done {
        let (bucket, what) = match what {
            [first, rest @ ..] if first.starts_with('b') => (bucket_id(first)?, rest),
            _ => (FIRST_BUCKET, what),
        };
        let government = self.meta.government(bucket).ok_or("there is no such bucket")?.clone();
        let named = |who: &str| {
            let node = node_id(who)?;
            Ok::<_, String>(government.named(node).unwrap_or(Member::new(node.0, 1)))
        };
        let change = match what {
            ["accept"] => return self.meta_accept(),
            ["refuse"] => return self.meta_refuse(),
            ["lose"] => return self.meta_lose(),
            ["lose", times] => {
                let times: usize = times.parse().map_err(|_| "a number")?;
                return (0..times).try_for_each(|_| self.meta_lose());
            }
            ["elsewhere"] => return self.meta_elsewhere(),
            ["register"] => return self.meta_register(),
            ["merge"] => return self.meta_merge(),
            ["bind", into] => {
                self.meta_bind(bucket, bucket_id(into)?);
                return Ok(());
            }
            ["enlist", who] => {
                self.add_node(node_id(who)?);
                Change::Enlist { node: node_id(who)? }
            }
            ["drop", who] => Change::Drop { candidate: named(who)? },
            ["dismiss", who, fate @ ..] => Change::Dismiss { secondary: named(who)?, fate: fate_of(fate)? },
            ["usurp", who, fate @ ..] => Change::Usurp { to: named(who)?, fate: fate_of(fate)? },
            ["renew", who] => Change::Renew { primary: named(who)? },
            ["disown", who] => Change::Disown { heir: named(who)? },
            ["min", min] => Change::SetMinInSync { min: min.parse().map_err(|_| "a number")? },
            _ => return Err("there is no such change".to_owned()),
        };
        self.meta_change(bucket, &change);
        Ok(())
    }

    fn node(&mut self, who: &str) -> Result<&mut super::Node, String> {
        self.nodes.get_mut(&node_id(who)?).ok_or_else(|| format!("there is no {who}"))
    }

    fn those(&self, who: &[&str]) -> Result<Vec<Actor>, String> {
        match who {
            [] => Ok(self.actors()),
            ["all"] => Ok(self.audience(FIRST_BUCKET)),
            some => some.iter().map(|who| actor(who)).collect(),
        }
    }
}

fn number(word: &str, prefix: char) -> Result<u64, String> {
    let digits = word.strip_prefix(prefix).ok_or_else(|| format!("{word} should begin with {prefix}"))?;
    digits.parse().map_err(|_| format!("{word} should be {prefix} and a number"))
}

fn node_id(word: &str) -> Result<NodeId, String> {
    number(word, 'n').map(NodeId)
}

fn bucket_id(word: &str) -> Result<BucketId, String> {
    number(word, 'b').map(BucketId)
}

fn actor(word: &str) -> Result<Actor, String> {
    match word.split_once('.') {
        Some((node, bucket)) => Ok(Actor { bucket: bucket_id(bucket)?, node: node_id(node)? }),
        None => Ok(Actor { bucket: FIRST_BUCKET, node: node_id(word)? }),
    }
}

fn link(word: &str) -> Result<(Actor, Actor), String> {
    let (from, to) = word.split_once("->").ok_or("a link is n1->n2")?;
    Ok((actor(from)?, actor(to)?))
}

fn slot_number(word: &str) -> Result<Slot, String> {
    word.parse().ok().and_then(Slot::new).ok_or_else(|| format!("{word} is no slot"))
}

fn slot_set(word: &str) -> Result<SlotSet, String> {
    let mut set = SlotSet::empty();
    for part in word.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        set = set.union(&SlotSet::range(slot_number(first)?, slot_number(last)?));
    }
    Ok(set)
}

fn duration(word: &str) -> Result<Duration, String> {
    let digits = word.trim_end_matches(char::is_alphabetic);
    let amount: u64 = digits.parse().map_err(|_| format!("{word} is no span of time"))?;
    match &word[digits.len()..] {
        "us" => Ok(Duration::from_micros(amount)),
        "ms" => Ok(Duration::from_millis(amount)),
        "s" => Ok(Duration::from_secs(amount)),
        "h" => Ok(Duration::from_secs(amount * 3600)),
        _ => Err(format!("{word} has no unit: us, ms, s or h")),
    }
}

fn fate_of(words: &[&str]) -> Result<Fate, String> {
    match words {
        [] => Ok(Fate::Leaves),
        ["stalled"] => Ok(Fate::Stalled),
        ["lost"] => Ok(Fate::Lost),
        _ => Err("stalled, lost, or nothing".to_owned()),
    }
}
