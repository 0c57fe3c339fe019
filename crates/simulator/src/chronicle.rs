//! The life of one bucket, for whoever asks why it stood still: what changed, who waited when, for what, and on whom.
//!
//! It is written while a world runs ([`Trace::asking_why`](crate::trace::Trace::asking_why)) and read afterwards. It sees what a
//! node would show at that moment, nothing more: the same words that an operator would read.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use blueprint::{Blueprint, BucketId, Conduct, Government, Member, NodeId};
use node::Node;
use reactor::coordinator::Subject;

use crate::report::seconds;

#[derive(Clone, Debug)]
pub struct Chronicle {
    pub bucket: BucketId,
    /// Every bucket that there ever was.
    pub known: BTreeSet<BucketId>,
    events: Vec<Event>,
    governments: Vec<(u64, Option<Government>)>,
    waits: Vec<Waited>,
    /// What each host shows now: which of `waits`.
    shown: BTreeMap<usize, BTreeMap<Key, usize>>,
    hosts: BTreeMap<usize, HostLife>,
    end: u64,
}

#[derive(Clone, Debug)]
struct Event {
    at: u64,
    text: String,
}

/// Apart from numbers that change by the second.
type Key = (Option<NodeId>, String);

/// A node waited, or several coordinators for the same thing.
#[derive(Clone, Debug)]
struct Waited {
    coordinators: bool,
    who: BTreeSet<NodeId>,
    from: u64,
    until: Option<u64>,
    /// How it was put, from when on.
    words: Vec<(u64, String)>,
}

#[derive(Clone, Debug, Default)]
struct HostLife {
    id: Option<NodeId>,
    /// Up, down, and what its replica does, from when on; and under which id.
    states: Vec<(u64, NodeId, String)>,
}

/// In the long list, shorter waits are only counted.
const WORTH_A_LINE: u64 = 200_000;
/// So many events before and after the moment that is shown.
const AROUND: usize = 6;

impl Chronicle {
    pub fn of(bucket: BucketId) -> Self {
        Self {
            bucket,
            known: BTreeSet::new(),
            events: Vec::new(),
            governments: Vec::new(),
            waits: Vec::new(),
            shown: BTreeMap::new(),
            hosts: BTreeMap::new(),
            end: 0,
        }
    }

    // ---- writing

    /// What the world's log says; `usize::MAX` is nobody in particular.
    pub(crate) fn on_line(&mut self, time: u64, host: usize, text: &str) {
        if host == usize::MAX {
            if text == "the world heals" || text.starts_with("fault: ") {
                self.events.push(Event { at: time, text: text.to_owned() });
            }
            return;
        }
        let life = self.hosts.entry(host).or_default();
        let name = life.id.unwrap_or(NodeId(host as u64 + 1));
        let told = match text.strip_prefix("fault: ") {
            Some(fault) => format!("{name}: {fault}"),
            None => format!("{name} {text}"),
        };
        if text == "crashes" {
            life.states.push((time, name, "down".into()));
            self.show(time, host, BTreeMap::new());
        } else if text == "starts" {
            life.states.push((time, name, "up".into()));
        }
        self.events.push(Event { at: time, text: told });
    }

    pub(crate) fn on_blueprint(&mut self, time: u64, before: Option<&Blueprint>, after: &Blueprint) {
        self.end = time;
        self.known.extend(after.buckets.keys());
        let absent = |node: &NodeId| !after.is_present(*node);
        for (node, word) in before.into_iter().flat_map(|b| b.nodes.keys()).filter_map(|node| {
            let was = before.is_some_and(|b| b.is_present(*node));
            match (was, absent(node)) {
                (true, true) => Some((node, "departs")),
                (false, false) => Some((node, "is back")),
                _ => None,
            }
        }) {
            self.events.push(Event { at: time, text: format!("{node} {word}") });
        }
        let new = after.government(self.bucket);
        let known = self.governments.last().and_then(|(_, g)| g.as_ref());
        if new == known && !self.governments.is_empty() || (new.is_none() && self.governments.is_empty()) {
            return;
        }
        let text = match new {
            Some(government) => describe(government),
            None => "it is removed".into(),
        };
        self.events.push(Event { at: time, text });
        self.governments.push((time, new.cloned()));
    }

    /// After a process looked at its inbox.
    pub(crate) fn on_look<C: Conduct>(&mut self, time: u64, host: usize, node: &Node<C>, blueprint: &Blueprint) {
        self.end = time;
        let (id, bucket) = (node.id(), self.bucket);
        let state = part(node, bucket);
        let life = self.hosts.entry(host).or_default();
        life.id = Some(id);
        if life.states.last().is_none_or(|(_, who, last)| (*who, last) != (id, &state)) {
            life.states.push((time, id, state));
        }
        let government = blueprint.government(bucket);
        let has_part = node.phaser(bucket).is_some() || government.is_some_and(|g| g.named(id).is_some());
        let mut shows: BTreeMap<Key, String> = BTreeMap::new();
        for wait in node.waits().map(|standing| &standing.wait) {
            if wait.bucket == Some(bucket) || (wait.bucket.is_none() && has_part) {
                let text = format!("{} waits for {} [on {}]: {}", wait.rule, wait.lacks, wait.whom, wait.because);
                shows.insert((Some(id), format!("{} {}", wait.rule, wait.condition)), text);
            }
        }
        let operation = blueprint.operation_on(bucket).map(|o| o.id);
        for wait in node.coordinator().waits() {
            let concerns = match wait.about {
                Subject::Bucket(b) => b == bucket,
                Subject::Node(n) => government.is_some_and(|g| g.named(n).is_some()),
                Subject::Operation { id, .. } => Some(id) == operation,
                Subject::Coordinator | Subject::Balance => false,
            };
            if concerns {
                let until = format!("{:?}", wait.until);
                let kind = until.split([' ', '(']).next().unwrap_or_default();
                shows.insert((None, format!("{:?} {kind}", wait.about)), wait.to_string());
            }
        }
        self.note(time, host, id, shows);
    }

    fn note(&mut self, time: u64, host: usize, id: NodeId, shows: BTreeMap<Key, String>) {
        let mut now = BTreeMap::new();
        for (key, text) in shows {
            let known = self.shown.values().find_map(|shown| shown.get(&key)).copied();
            let at = known.unwrap_or_else(|| {
                let coordinators = key.0.is_none();
                let (who, words) = (BTreeSet::new(), Vec::new());
                self.waits.push(Waited { coordinators, who, from: time, until: None, words });
                self.waits.len() - 1
            });
            let waited = &mut self.waits[at];
            waited.who.insert(id);
            if waited.words.last().is_none_or(|(_, last)| *last != text) {
                waited.words.push((time, text));
            }
            now.insert(key, at);
        }
        self.show(time, host, now);
    }

    fn show(&mut self, time: u64, host: usize, now: BTreeMap<Key, usize>) {
        let before = self.shown.insert(host, now).unwrap_or_default();
        for at in before.into_values() {
            let still = self.shown.values().any(|shown| shown.values().any(|other| *other == at));
            if !still {
                self.waits[at].until = Some(time);
            }
        }
    }

    // ---- reading

    pub fn exists(&self) -> bool {
        self.known.contains(&self.bucket)
    }

    /// The moment to look at first: the last one of the longest wait.
    fn longest(&self) -> Option<&Waited> {
        // Coordinators wait on behalf of the nodes: whoever holds the bucket says it better.
        let long = |w: &&Waited| (!w.coordinators, w.lasted(self.end));
        self.waits.iter().filter(|w| w.lasted(self.end) >= WORTH_A_LINE).max_by_key(long)
    }

    pub fn tell(&self, at: Option<u64>) -> String {
        let mut text = String::new();
        let moment = match (at, self.longest()) {
            (Some(at), _) => at.min(self.end),
            (None, Some(longest)) => {
                let (from, until) = (longest.from, longest.until.unwrap_or(self.end));
                let who = longest.by();
                let lasted = seconds(until - from);
                let _ = writeln!(
                    text,
                    "The longest wait of {}: {who}, {lasted}, from {} to {}.",
                    self.bucket,
                    clock(from).trim(),
                    clock(until).trim()
                );
                until.saturating_sub(1)
            }
            (None, None) => {
                let _ = writeln!(text, "{} never waited for long.", self.bucket);
                self.end
            }
        };
        self.tell_moment(moment, &mut text);
        if at.is_none() {
            self.tell_life(&mut text);
        }
        text
    }

    fn tell_moment(&self, moment: u64, text: &mut String) {
        let _ = writeln!(text, "\nAt {} s", clock(moment).trim());
        let government = self.governments.iter().take_while(|(at, _)| *at <= moment).last();
        let line = match government {
            Some((at, Some(government))) => format!("{} (since {})", describe(government), clock(*at).trim()),
            Some((at, None)) => format!("removed (since {})", clock(*at).trim()),
            None => "it does not exist yet".into(),
        };
        let _ = writeln!(text, "  {:<12} {line}", self.bucket.to_string());
        for life in self.hosts.values() {
            let state = life.states.iter().take_while(|(at, ..)| *at <= moment).last();
            if let Some((at, id, state)) = state.filter(|(.., state)| state != NO_PART) {
                let _ = writeln!(text, "  {:<12} {state} (since {})", id.to_string(), clock(*at).trim());
            }
        }
        let waiting = || self.waits.iter().filter(|w| w.from <= moment && w.until.is_none_or(|until| until > moment));
        if waiting().next().is_none() {
            let _ = writeln!(text, "  nobody waits for anything about it");
        }
        for waited in waiting() {
            let words = waited.words.iter().take_while(|(at, _)| *at <= moment).last().map_or("", |(_, w)| w.as_str());
            let _ = writeln!(text, "  {:<12} {words} (for {})", waited.by(), seconds(moment - waited.from));
        }
        let next = self.events.partition_point(|e| e.at <= moment);
        let around = &self.events[next.saturating_sub(AROUND)..(next + AROUND).min(self.events.len())];
        let _ = writeln!(text, "\nAround that moment");
        for event in around {
            let mark = if event.at > moment { "then" } else { "" };
            let _ = writeln!(text, "  {} {mark:<4} {}", clock(event.at), event.text);
        }
    }

    fn tell_life(&self, text: &mut String) {
        let _ =
            writeln!(text, "\nAll of its life: what changed, and who waited for at least {}", seconds(WORTH_A_LINE));
        let events = self.events.iter().map(|e| (e.at, 0, e.text.clone()));
        let long = |w: &&Waited| w.lasted(self.end) >= if w.coordinators { 5 * WORTH_A_LINE } else { WORTH_A_LINE };
        let waits = self.waits.iter().filter(long).map(|w| {
            let words = w.words.first().map_or("", |(_, words)| words.as_str());
            (w.from, 1, format!("  {} waited {}: {words}", w.by(), seconds(w.lasted(self.end))))
        });
        let mut lines: Vec<(u64, u8, String)> = events.chain(waits).collect();
        lines.sort();
        for (at, _, line) in lines {
            let _ = writeln!(text, "  {} {line}", clock(at));
        }
        let short = self.waits.iter().filter(|w| !long(w)).count();
        let _ = writeln!(text, "  and {short} shorter waits");
    }
}

impl Waited {
    fn lasted(&self, end: u64) -> u64 {
        self.until.unwrap_or(end) - self.from
    }

    fn by(&self) -> String {
        let names: Vec<String> = self.who.iter().map(ToString::to_string).collect();
        match (self.coordinators, names.len()) {
            (false, _) => names.join(", "),
            (true, 1) => format!("coordinator of {}", names[0]),
            (true, _) => format!("coordinators of {}", names.join(", ")),
        }
    }
}

const NO_PART: &str = "up, and holds nothing of it";

fn part<C: Conduct>(node: &Node<C>, bucket: BucketId) -> String {
    let Some(phaser) = node.phaser(bucket) else { return NO_PART.into() };
    let (me, missing) = (phaser.me(), phaser.missing().len());
    match phaser.leads() {
        Some((term, true)) => format!("{me} serves {term}"),
        Some((term, false)) => format!("{me} leads {term} and does not serve yet"),
        None if missing > 0 => format!("{me} follows {}, slots are missing", phaser.promised()),
        None => format!("{me} follows {}", phaser.promised()),
    }
}

fn describe(government: &Government) -> String {
    let names = |members: &[Member]| members.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
    let mut text = format!("{}: {} leads", government.term, government.primary);
    for (word, members) in
        [("", &government.secondaries), ("candidates ", &government.candidates), ("heirs ", &government.heirs)]
    {
        if !members.is_empty() {
            let gap = if word.is_empty() { " " } else { ", " };
            text += &format!("{gap}{word}{}", names(members));
        }
    }
    text + &format!(", minimum {}", government.min_in_sync)
}

fn clock(time: u64) -> String {
    format!("{:>9.3}", time as f64 / 1e6)
}
