//! Somebody who asks again and again what waits, and for what, and holds it against what can be seen otherwise: what every node says of
//! the blueprint and of the operation before and after, and what the test itself has done.
//!
//! A claim is true if it is true of one of these moments. What a node has not heard of yet it cannot say: a claim that is untrue, and a
//! silence where something should be said, is forgiven for as long as news may be on their way, and not longer.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use server::{BucketStatus, NodeStatus, OperationView, Status, WaitView};

use super::{Cluster, http};

/// Rounds last a quarter of a second, here; but this machine may be doing anything else.
const NEWS: Duration = Duration::from_secs(20);

/// For whoever looks at a test that fails: what was wrong for longer.
const TOLD: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub(crate) struct Witness {
    operation: String,
    copies: usize,
    /// Who does not run, by the test's own doing.
    dead: BTreeSet<String>,
    /// Since when each thing has been wrong, at every reading.
    wrong: BTreeMap<Wrong, Instant>,
    /// The last reading, with names in the place of ids.
    said: Vec<WaitView>,
    readings: usize,
    claims: usize,
    /// For how long each was wrong at most.
    longest: BTreeMap<Wrong, Duration>,
}

/// Who says it, about what, and what is wrong with it.
type Wrong = (String, String, String);

/// As one node sees it.
struct Moment {
    status: Status,
    operation: Option<OperationView>,
}

impl Witness {
    pub(crate) fn of(operation: &str, copies: usize) -> Self {
        Self { operation: operation.to_owned(), copies, ..Self::default() }
    }

    pub(crate) fn died(&mut self, name: &str) {
        self.dead.insert(name.to_owned());
    }

    pub(crate) fn came_back(&mut self, name: &str) {
        self.dead.remove(name);
    }

    /// What was said at the last reading, with names in the place of ids.
    pub(crate) fn said(&self) -> &[WaitView] {
        &self.said
    }

    pub(crate) fn end(self) {
        let longest = self.longest.values().max().copied().unwrap_or_default();
        eprintln!("{} readings, {} claims, none wrong for more than {longest:?}", self.readings, self.claims);
        for (wrong, length) in self.longest.iter().filter(|(_, length)| **length > TOLD) {
            eprintln!("for {length:?}: {wrong:?}");
        }
        assert!(self.claims > 0, "there was something to say");
    }

    /// Asks once.
    pub(crate) fn look(&mut self, cluster: &Cluster) {
        let mut moments = self.moments(cluster);
        let output = cluster.godwit(&["why", "--json"]);
        let Ok(mut said) = serde_json::from_slice::<Vec<WaitView>>(&output.stdout) else {
            assert!(!output.status.success(), "{}", super::text(&output));
            return; // nobody could be asked
        };
        moments.extend(self.moments(cluster));
        let known = || moments.iter().flat_map(|moment| &moment.status.nodes);
        let name = |word: &str| known().find(|node| node.id == word).map(|node| node.name.clone());
        said.iter_mut().for_each(|wait| wait.waits_for = server::replace_words(&wait.waits_for, name));
        let mut found = Vec::new();
        for wait in &said {
            let judge = Judge { witness: self, wait, moments: &moments };
            if let Err(why) = judge.check() {
                let about = wait.bucket.clone().unwrap_or_default();
                // Of what a node waits for the numbers change, and it is still the same.
                let what =
                    if wait.by == "coordinator" { wait.waits_for.clone() } else { format!("{about} {}", wait.rule) };
                found.push(((wait.node.clone(), what, why), wait.waits_for.clone()));
            }
        }
        for (about, why) in self.silences(&said, &moments) {
            found.push((("everyone".to_owned(), about, why), "nothing is said".to_owned()));
        }
        (self.readings, self.claims) = (self.readings + 1, self.claims + said.len());
        self.said = said;
        self.note(found, cluster);
    }

    fn note(&mut self, found: Vec<(Wrong, String)>, cluster: &Cluster) {
        let now = Instant::now();
        self.wrong.retain(|wrong, _| found.iter().any(|(other, _)| other == wrong));
        for (wrong, words) in found {
            let since = *self.wrong.entry(wrong.clone()).or_insert(now);
            let length = now.duration_since(since);
            let longest = self.longest.entry(wrong.clone()).or_default();
            *longest = length.max(*longest);
            let (node, about, what) = wrong;
            assert!(length < NEWS, "for {length:?}: {node}, {about}: \"{words}\": {what}\n{}", cluster.describe());
        }
    }

    fn moments(&self, cluster: &Cluster) -> Vec<Moment> {
        let path = format!("/v1/operations/{}", self.operation);
        let nodes = cluster.nodes.iter().filter(|node| node.runs());
        let moment = |node: &super::Node| {
            let operation = http(&node.address(200), "GET", &path, "").filter(|(code, _)| *code == 200);
            let operation = operation.map(|(_, body)| serde_json::from_str(&body).expect("an operation"));
            Some(Moment { status: node.status()?, operation })
        };
        nodes.filter_map(moment).collect()
    }

    /// What stands still all the time, and of which nobody says why.
    fn silences(&self, said: &[WaitView], moments: &[Moment]) -> Vec<(String, String)> {
        let mut silences = Vec::new();
        let under_way = |moment: &Moment| {
            let one = moment.operation.as_ref().filter(|one| one.state == "running");
            one.map(|one| one.done)
        };
        if let Some(step) = always(moments, under_way) {
            let about = format!("{}, step {}: ", self.operation, step + 1);
            if !said.iter().any(|wait| wait.by == "coordinator" && wait.waits_for.starts_with(&about)) {
                silences.push((self.operation.clone(), format!("nobody says what step {step} waits for")));
            }
        }
        for bucket in
            moments.iter().flat_map(|moment| &moment.status.buckets).map(|bucket| &bucket.id).collect::<BTreeSet<_>>()
        {
            let short = |moment: &Moment| {
                let bucket = moment.bucket(bucket)?;
                (!bucket.serving || members(bucket).count() < self.copies).then_some(())
            };
            let about = |wait: &WaitView| {
                wait.bucket.as_ref() == Some(bucket) || wait.waits_for.contains(&format!("{bucket}:"))
            };
            let operated = |moment: &Moment| {
                moment.operation.iter().any(|one| {
                    one.state == "running" && one.steps[one.done..].iter().any(|step| step.bucket == *bucket)
                })
            };
            if always(moments, short).is_some() && !said.iter().any(about) && !moments.iter().any(operated) {
                silences.push((bucket.clone(), "nobody says why it lacks a copy, or does not serve".to_owned()));
            }
        }
        for name in &self.dead {
            let missed = |moment: &Moment| moment.node(name).filter(|node| node.state == "present").map(|_| ());
            if always(moments, missed).is_some() && !said.iter().any(|wait| wait.waits_for.contains(name.as_str())) {
                silences.push((name.clone(), "nobody misses it".to_owned()));
            }
        }
        silences
    }
}

/// The same at every moment.
fn always<T: PartialEq>(moments: &[Moment], what: impl Fn(&Moment) -> Option<T>) -> Option<T> {
    let mut all = moments.iter().map(what);
    let first = all.next()??;
    all.all(|other| other.as_ref() == Some(&first)).then_some(first)
}

fn members(bucket: &BucketStatus) -> impl Iterator<Item = &String> {
    bucket.secondaries.iter().chain([&bucket.primary])
}

impl Moment {
    fn bucket(&self, id: &str) -> Option<&BucketStatus> {
        self.status.buckets.iter().find(|bucket| bucket.id == id)
    }

    fn node(&self, name: &str) -> Option<&NodeStatus> {
        self.status.nodes.iter().find(|node| node.name == name)
    }

    fn is_present(&self, name: &str) -> bool {
        self.node(name).is_some_and(|node| node.state == "present")
    }
}

/// One claim before the moments around it.
struct Judge<'a> {
    witness: &'a Witness,
    wait: &'a WaitView,
    moments: &'a [Moment],
}

type Verdict = Result<(), String>;

fn verdict(is_true: bool, otherwise: impl Into<String>) -> Verdict {
    if is_true { Ok(()) } else { Err(otherwise.into()) }
}

/// What is between the two, if it is of that form.
fn between<'a>(text: &'a str, before: &str, after: &str) -> Option<&'a str> {
    let rest = text.strip_prefix(before)?;
    Some(&rest[..rest.find(after)?])
}

/// The names of nodes in it.
fn nodes_in(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !(c.is_alphanumeric() || c == '-'));
    words.filter(|word| word.starts_with("node-")).map(str::to_owned).collect()
}

impl Judge<'_> {
    fn check(&self) -> Verdict {
        for name in nodes_in(&self.wait.waits_for) {
            verdict(self.ever(|moment| moment.node(&name).is_some()), format!("there is no {name}"))?;
        }
        match self.wait.by.as_str() {
            "coordinator" => self.check_coordinator(),
            _ => self.check_node(),
        }
    }

    fn ever(&self, is_so: impl Fn(&Moment) -> bool) -> bool {
        self.moments.iter().any(is_so)
    }

    fn is_dead(&self, name: &str) -> bool {
        self.witness.dead.contains(name)
    }

    fn ever_of(&self, bucket: &str, is_so: impl Fn(&BucketStatus) -> bool) -> bool {
        self.ever(|moment| moment.bucket(bucket).is_some_and(&is_so))
    }

    /// It does not answer, and whoever waits for that may hope: it has not departed.
    fn is_missed(&self, names: &BTreeSet<String>) -> Verdict {
        for name in names {
            verdict(self.is_dead(name), format!("{name} runs, and answers"))?;
            verdict(
                self.ever(|moment| moment.is_present(name)),
                format!("{name} has departed: nobody waits for an answer"),
            )?;
        }
        Ok(())
    }

    /// It runs, and so it may do something.
    fn is_able(&self, names: &BTreeSet<String>) -> Verdict {
        for name in names {
            verdict(!self.is_dead(name), format!("{name} does not run: it will do nothing"))?;
        }
        Ok(())
    }

    fn check_coordinator(&self) -> Verdict {
        let Some((about, until)) = self.wait.waits_for.split_once(": waits until ") else {
            return Err("no sentence".into());
        };
        if about == "this coordinator" {
            return self.check_itself(until);
        }
        if about.starts_with("node-") {
            return self.check_about_node(about, until);
        }
        match about.split_once(", step ") {
            Some((operation, step)) => self.check_operation(operation, step, until),
            None => self.check_about_bucket(about, until),
        }
    }

    fn check_itself(&self, until: &str) -> Verdict {
        let asked = until.strip_prefix("everyone was asked afresh");
        match asked {
            Some(open) => self.is_missed(&nodes_in(open)),
            None => {
                let leaderless =
                    |moment: &Moment| moment.status.meta.leader.as_ref().is_none_or(|name| self.is_dead(name));
                verdict(until == "the meta group answers" && self.ever(leaderless), "the meta group has a leader")
            }
        }
    }

    fn check_about_node(&self, name: &str, until: &str) -> Verdict {
        let present = self.ever(|moment| moment.is_present(name));
        let departed = self.ever(|moment| !moment.is_present(name));
        if until.contains("is silent to most")
            || until.contains("to report again")
            || until.contains("the departure of")
        {
            return verdict(self.is_dead(name) && present, "it runs, or has departed already");
        }
        if until.contains("is heard by most") || until.contains("the return of") {
            return verdict(!self.is_dead(name) && departed, "it does not run, or is present already");
        }
        if let Some(epoch) = between(until, &format!("{name} acts on e"), ",") {
            let epoch: u64 = epoch.parse().expect("an epoch");
            // One that died is waited for until it is missed.
            let told = self.moments.iter().find(|moment| moment.status.name == name);
            let is_behind = told.is_none_or(|moment| moment.status.epoch < epoch);
            return verdict(present && is_behind, "it has departed, or acts on that already");
        }
        Err("not understood".into())
    }

    fn check_about_bucket(&self, bucket: &str, until: &str) -> Verdict {
        let named = |name: &String| {
            let is = |b: &BucketStatus| members(b).chain(&b.candidates).chain(&b.heirs).any(|other| other == name);
            self.ever_of(bucket, is)
        };
        if let Some(names) =
            until.split_once("its primary ").map(|(_, rest)| nodes_in(&rest[..rest.find(' ').unwrap_or(rest.len())]))
        {
            let leads = names.iter().all(|name| self.ever_of(bucket, |b| b.primary == *name));
            verdict(leads, "it does not lead it")?;
            let leaves = until.split_once("until then ").map(|(_, rest)| nodes_in(rest)).unwrap_or(names);
            return verdict(leaves.iter().all(|name| self.is_dead(name)), "it runs");
        }
        if until.starts_with("the meta group has accepted ") {
            let missed = self.witness.dead.iter().any(named);
            return verdict(missed, "nobody who has part in it is missed");
        }
        Err("not understood".into())
    }

    fn check_operation(&self, operation: &str, step: &str, until: &str) -> Verdict {
        verdict(operation == self.witness.operation, "there is no other")?;
        // Counted from 1, as in the plan.
        let step = step.parse::<usize>().expect("a number") - 1;
        let stands =
            |moment: &Moment| moment.operation.as_ref().is_some_and(|one| one.done == step && one.state == "running");
        verdict(self.ever(stands), "it does not stand there")?;
        let view =
            self.moments.iter().filter_map(|moment| moment.operation.as_ref()).find_map(|one| one.steps.get(step));
        let (bucket, what) = view.map(|view| (view.bucket.as_str(), view.what.as_str())).expect("it has such a step");
        let is_member =
            |name: &str| self.moments.iter().all(|m| m.bucket(bucket).is_some_and(|b| members(b).any(|n| n == name)));
        let words: Vec<&str> = until.split(' ').collect();
        if let [primary, "has", "filled", "and", "seated", name] = words[..] {
            verdict(!is_member(name), format!("{name} is seated"))?;
            verdict(self.ever_of(bucket, |b| b.primary == primary), format!("{primary} does not lead it"))?;
            verdict(what.ends_with(name), format!("the step is: {what}"))?;
            return verdict(self.ever(|moment| moment.is_present(name)), format!("{name} has departed"));
        }
        if let [primary, "has", "handed", "over", "to", name] = words[..] {
            verdict(self.ever_of(bucket, |b| b.primary == primary), format!("{primary} does not lead it"))?;
            return verdict(what == format!("hand over to {name}"), format!("the step is: {what}"));
        }
        if let [name, "answers,", "or", "has", "departed"] = words[..] {
            return self.is_missed(&BTreeSet::from([name.to_owned()]));
        }
        if let ["there", "are", wanted, "members", "without", leaves, ..] = words[..] {
            return self.check_enough(bucket, wanted, leaves.trim_end_matches(','), until);
        }
        if let Some(rest) = until.strip_prefix("the meta group has accepted ") {
            return match between(rest, "step ", &format!(" of {operation}")) {
                Some(other) => verdict(other == (step + 1).to_string(), "another step"),
                None => verdict(
                    nodes_in(rest).iter().all(|name| what.contains(name.as_str())),
                    format!("the step is: {what}"),
                ),
            };
        }
        if let ["its", "primary", primary, "answers", "and", "holds", ..] = words[..] {
            return verdict(self.ever_of(bucket, |b| b.primary == primary), format!("{primary} does not lead it"));
        }
        Err("not understood".into())
    }

    fn check_enough(&self, bucket: &str, wanted: &str, leaves: &str, until: &str) -> Verdict {
        verdict(wanted == self.witness.copies.to_string(), "another number is wanted")?;
        let (_, now) = until.split_once('(').expect("how many there are now");
        let count: usize = now[..now.find(' ').expect("words")].parse().expect("a number");
        let is_so = |b: &BucketStatus| {
            let come = now.split_once("on its way: ").map(|(_, names)| nodes_in(names)).unwrap_or_default();
            members(b).filter(|name| *name != leaves).count() == count
                && come.iter().all(|name| b.candidates.contains(name))
        };
        verdict(count < self.witness.copies && self.ever_of(bucket, is_so), "there are others")
    }

    fn check_node(&self) -> Verdict {
        let WaitView { node, rule, waits_for: text, .. } = self.wait;
        let Some(bucket) = self.wait.bucket.as_deref() else { return self.check_at_large() };
        let names = nodes_in(text);
        let leads = |name: &str| self.ever_of(bucket, |b| b.primary == name);
        let is_candidate = |name: &str| self.ever_of(bucket, |b| b.candidates.iter().any(|n| n == name));
        let is_member = |name: &str| self.ever_of(bucket, |b| members(b).any(|n| n == name));
        let every = |is: &dyn Fn(&str) -> bool| names.iter().all(|name| is(name));
        match rule.as_str() {
            "fill" => {
                verdict(leads(node), "it does not lead")?;
                verdict(every(&is_candidate), "not a candidate")?;
                if text.starts_with("an answer from") { self.is_missed(&names) } else { self.is_able(&names) }
            }
            "seat" => {
                verdict(leads(node), "it does not lead")?;
                verdict(every(&is_candidate), "not a candidate")
            }
            "listen" | "catch-up" => {
                let part = if rule == "listen" { is_member(node) } else { is_candidate(node) };
                verdict(part, "it has no such part")?;
                verdict(every(&leads), "not its primary")?;
                self.check_listening(text, &names)
            }
            "departed" => {
                let is_gone = |name: &str| self.is_dead(name) && self.ever(|moment| !moment.is_present(name));
                verdict(every(&is_gone) && every(&is_member), "it is there, or has no part")
            }
            "recover" => {
                verdict(leads(node), "it does not lead")?;
                self.check_recovery(bucket, text, &names)
            }
            "shed" => {
                verdict(leads(node), "it does not lead")?;
                let is_too_many = |moment: &Moment| {
                    let Some(b) = moment.bucket(bucket) else { return false };
                    let gone = b.candidates.iter().any(|name| !moment.is_present(name));
                    gone || members(b).count() + b.candidates.len() > self.witness.copies
                };
                verdict(self.ever(is_too_many), "it has not too many")?;
                let under_way = |moment: &Moment| moment.operation.as_ref().is_some_and(|one| one.state == "running");
                verdict(!text.contains("the operation") || self.ever(under_way), "it is over")
            }
            "acknowledge" | "reign" | "read" | "hand-over" | "split" => {
                verdict(leads(node), "it does not lead")?;
                verdict(every(&|name| is_member(name) || is_candidate(name)), "it has no part in it")
            }
            "erase" => {
                let has_part = |b: &BucketStatus| members(b).chain(&b.candidates).any(|n| n == node);
                verdict(self.ever_of(bucket, |b| !has_part(b)), "it has a part in it")?;
                if text.contains("for which ours may be taken back") {
                    let short = self.ever_of(bucket, |b| members(b).count() < self.witness.copies);
                    return verdict(short, "there are enough");
                }
                verdict(every(&is_member), "not a member")?;
                self.is_able(&names)
            }
            _ => Ok(()),
        }
    }

    fn check_at_large(&self) -> Verdict {
        let node = &self.wait.node;
        if self.wait.rule == "join" {
            return verdict(self.ever(|moment| !moment.is_present(node)), "it is present");
        }
        Ok(())
    }

    fn check_listening(&self, text: &str, names: &BTreeSet<String>) -> Verdict {
        if text.starts_with("a successor of") {
            let gone = |name: &String| self.is_dead(name) && self.ever(|moment| !moment.is_present(name));
            return verdict(names.iter().all(gone), "it is there");
        }
        if text.ends_with("to be reachable again") || text.starts_with("a word from") {
            return verdict(names.iter().all(|name| self.is_dead(name)), "it runs, and speaks");
        }
        self.is_able(names)
    }

    fn check_recovery(&self, bucket: &str, text: &str, names: &BTreeSet<String>) -> Verdict {
        let lacks = |moment: &Moment| {
            moment.bucket(bucket).is_some_and(|b| self.copies_to_stay(moment, b) < self.witness.copies)
        };
        verdict(self.ever(lacks), "it lacks no copy")?;
        if text.contains("the lost copy may return") {
            return verdict(!self.witness.dead.is_empty(), "none was lost");
        }
        if text.starts_with("a node for ") {
            let is_free = |moment: &Moment, b: &BucketStatus| {
                let has_part = |name: &String| members(b).chain(&b.candidates).any(|n| n == name);
                moment.status.nodes.iter().any(|n| {
                    n.state == "present" && n.intent.is_empty() && !self.is_dead(&n.name) && !has_part(&n.name)
                })
            };
            return verdict(
                self.ever(|moment| moment.bucket(bucket).is_some_and(|b| !is_free(moment, b))),
                "there is one",
            );
        }
        if text.contains(" to catch up: ") {
            let catches_up =
                |moment: &Moment, name: &String| moment.status.buckets.iter().any(|b| b.candidates.contains(name));
            verdict(
                names.iter().all(|name| self.ever(|moment| catches_up(moment, name))),
                "it has nothing to catch up with",
            )?;
            return self.is_able(names);
        }
        self.is_able(names)
    }

    /// When the operation has ended: without those that it dismisses, and with those that it enlists.
    fn copies_to_stay(&self, moment: &Moment, bucket: &BucketStatus) -> usize {
        let has_part = |name: &str| members(bucket).chain(&bucket.candidates).any(|n| n == name);
        let copies = members(bucket).count() + bucket.candidates.len();
        let Some(one) = moment.operation.as_ref().filter(|one| one.state == "running") else { return copies };
        let ahead = || one.steps[one.done..].iter().filter(|step| step.bucket == bucket.id);
        let leave = ahead().filter(|step| step.what.strip_prefix("dismiss ").is_some_and(has_part)).count();
        let come = ahead().filter(|step| step.what.strip_prefix("enlist ").is_some_and(|name| !has_part(name))).count();
        copies + come - leave
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// b1, led by node-1, is being copied to node-4, for the third step of o1.
    fn moment(node_4: &str) -> Moment {
        let node = |number: u64, state: &str| {
            json!({ "id": format!("n{number}"), "name": format!("node-{number}"), "zone": "", "state": state, "reachable": true,
                "leads": 0, "follows": 0, "echoed": 9, "cluster": "", "any": "", "http": "", "peers": "" })
        };
        let nodes: Vec<Value> =
            [(1, "present"), (2, "present"), (3, "present"), (4, node_4)].map(|(n, s)| node(n, s)).into();
        let bucket = json!({ "id": "b1", "keyspace": "default", "slots": "0-99", "term": 2, "primary": "node-1",
            "secondaries": ["node-2", "node-3"], "candidates": ["node-4"], "heirs": [], "min_in_sync": 2, "serving": true, "applied": 7 });
        let meta = json!({ "role": "leader", "leader": "node-1", "voters": [], "term": 1, "applied": 9 });
        let status = json!({ "cluster": "", "node": "n1", "name": "node-1", "version": "", "epoch": 9, "problems": [], "nodes": nodes,
            "keyspaces": [], "buckets": [bucket], "meta": meta, "operations": ["o1"] });
        let step = |bucket: &str, what: &str| json!({ "bucket": bucket, "what": what, "filled": null, "bytes": null, "total_bytes": null, "copies": 3 });
        let steps = [
            step("", "mark node-3 as leaving"),
            step("b1", "enlist node-4"),
            step("b1", "seat node-4"),
            step("b1", "dismiss node-3"),
        ];
        let operation = json!({ "id": "o1", "by": "", "asked": "", "state": "running", "why": "", "done": 2, "bytes": 0, "total_bytes": 0,
            "throttle": null, "steps": steps, "waits": [] });
        Moment {
            status: serde_json::from_value(status).expect("a status"),
            operation: Some(serde_json::from_value(operation).expect("an operation")),
        }
    }

    fn wait(by: &str, rule: &str, bucket: Option<&str>, waits_for: &str) -> WaitView {
        let (node, because, bucket) = ("node-1".into(), String::new(), bucket.map(str::to_owned));
        WaitView { node, by: by.into(), bucket, rule: rule.into(), waits_for: waits_for.into(), because, seconds: 0.0 }
    }

    fn is_true(dead: &[&str], moment: Moment, wait: &WaitView) -> bool {
        let dead = dead.iter().map(|name| (*name).to_owned()).collect();
        let witness = Witness { dead, ..Witness::of("o1", 3) };
        Judge { witness: &witness, wait, moments: &[moment] }.check().is_ok()
    }

    #[test]
    fn what_is_untrue_is_noticed() {
        let here = || moment("present");
        let fill = |text: &str| wait("node", "fill", Some("b1"), text);
        assert!(is_true(&[], here(), &fill("node-4 to take 12 more slots")));
        assert!(!is_true(&["node-4"], here(), &fill("node-4 to take 12 more slots")), "it is dead");
        assert!(!is_true(&[], here(), &fill("node-3 to take 12 more slots")), "it is a member");
        assert!(is_true(&["node-4"], here(), &fill("an answer from node-4")));
        assert!(!is_true(&[], here(), &fill("an answer from node-4")), "it answers");
        assert!(!is_true(&["node-4"], moment("departed"), &fill("an answer from node-4")), "it will not answer");

        let step = |text: &str| wait("coordinator", "coordinator", None, text);
        assert!(is_true(&[], here(), &step("o1, step 3: waits until node-1 has filled and seated node-4")));
        assert!(
            !is_true(&[], here(), &step("o1, step 2: waits until node-1 has filled and seated node-4")),
            "it is at the next"
        );
        assert!(
            !is_true(&[], here(), &step("o1, step 3: waits until node-2 has filled and seated node-4")),
            "node-1 leads"
        );
        assert!(
            !is_true(&[], here(), &step("o1, step 3: waits until node-1 has filled and seated node-3")),
            "it has a seat"
        );
        assert!(!is_true(&[], here(), &step("o1, step 3: waits until somebody sings")));
        assert!(!is_true(
            &[],
            here(),
            &step("node-4: waits until node-4 is silent to most coordinators (1 of 4 say so)")
        ));
        assert!(
            !is_true(&[], here(), &step("this coordinator: waits until the meta group answers")),
            "it has a leader"
        );
    }

    #[test]
    fn silence_is_noticed() {
        let said = |text: &str| [wait("coordinator", "coordinator", None, text)];
        let witness = Witness { dead: BTreeSet::from(["node-4".to_owned()]), ..Witness::of("o1", 4) };
        let about = |said: &[WaitView]| -> Vec<String> {
            witness
                .silences(said, &[moment("present"), moment("present")])
                .into_iter()
                .map(|(about, _)| about)
                .collect()
        };
        assert_eq!(about(&[]), ["o1", "node-4"]);
        assert!(about(&said("o1, step 3: waits until node-1 has filled and seated node-4")).is_empty());
        assert_eq!(about(&said("node-4: waits until node-4 is silent to most coordinators (1 of 4 say so)")), ["o1"]);
    }
}
