//! A trace in words.

use std::fmt::Write;
use std::hash::Hash;

use blueprint::{Bond, Bucket, Change, Conduct, Fate};
use phaser::{Entries, EntryRef, Message, Payload};

use super::action::Action;
use super::explorer::Explorer;
use super::meta::{CHILD, Proposal};
use super::replica::Deed;
use super::world::{Effect, Letter, World, bucket_of, node_of, place};

impl<C: Conduct + Hash> Explorer<C> {
    pub(super) fn describe(&self, world: &World, action: &Action) -> String {
        let desk = self.desks.get(world.desk);
        match action {
            Action::Deliver { letter } => {
                let letter = self.letters.get(*letter);
                let (from, to) = (letter.envelope.from.node, letter.envelope.to.node);
                format!("{to}{} gets {} of {from}", child(usize::from(letter.bucket)), message(letter))
            }
            Action::Sync { node, writes } => {
                let all = |bucket: usize| self.known(world.replicas[place(bucket, *node)]).map_or(0, |k| k.lore.writes);
                let what = if *writes == [all(0), all(1)] { "everything" } else { "the first write" };
                format!("n{}: its disk has written {what}", node + 1)
            }
            Action::Wake { at } => format!("{} wakes", replica(*at)),
            Action::See { node, epoch } => {
                let government = self.metas.get(world.meta).government_at(0, *epoch).expect("the parent stays").clone();
                let names = |members: &[blueprint::Member]| {
                    members.iter().map(|m| m.node.to_string()).collect::<Vec<_>>().join(",")
                };
                let mut text =
                    format!("n{} sees e{epoch}: {} under {}", node + 1, government.term, government.primary.node);
                for (what, who) in [
                    ("with", &government.secondaries),
                    ("candidates", &government.candidates),
                    ("heirs", &government.heirs),
                ] {
                    if !who.is_empty() {
                        let _ = write!(text, ", {what} {}", names(who));
                    }
                }
                text.push_str(self.child_text(world, *epoch));
                text
            }
            Action::Look { question } => {
                let asked = desk.questions[*question];
                format!("the blueprint is read for {}", replica(usize::from(asked.by)))
            }
            Action::Tell { question } => {
                let asked = desk.questions[*question];
                let epoch = asked.found.unwrap_or(self.metas.get(world.meta).epoch());
                format!("{} is told that the blueprint is at e{epoch}", replica(usize::from(asked.by)))
            }
            Action::Accept { proposal } => {
                let Proposal { by, term, change: what, .. } = &desk.proposals[*proposal];
                format!("accepted, in place of {term}: {} (proposed by {})", change(what), replica(usize::from(*by)))
            }
            Action::Refuse { proposal } => {
                let Proposal { by, term, change: what, .. } = &desk.proposals[*proposal];
                format!("{} is refused a copy of its proposal in {term}: {}", replica(usize::from(*by)), change(what))
            }
            Action::Register { .. } => "the blueprint registers the child".into(),
            Action::Bind => "the blueprint binds parent and child".into(),
            Action::Merge { paper } => format!("the blueprint knows of the Absorb {}", desk.merges[*paper]),
            Action::Erase { node } => format!("n{} erases what it has of the child", node + 1),
            Action::Strike { node } => format!("the blueprint knows that n{} has erased the child", node + 1),
            Action::Crash { node, kept } => {
                let mut text = format!("n{} crashes and restarts", node + 1);
                for (bucket, kept) in kept.iter().enumerate() {
                    let Some(known) = self.known(world.replicas[place(bucket, *node)]) else { continue };
                    let records = known.replica.pending.iter().flat_map(|(_, records)| records);
                    for (at, record) in records.enumerate() {
                        let fate = if kept & (1 << at) == 0 { "loses" } else { "keeps" };
                        let _ = write!(text, ", {fate}{} {}", child(bucket), self::record(record));
                    }
                }
                text
            }
            Action::Lose { node } => format!("n{} loses its disk", node + 1),
            Action::Tick => "time passes: every lease runs out".into(),
            Action::Write { at, slot } => {
                let write = self.facts.get(world.facts).issued + 1;
                format!("a client writes {write} to slot {slot} at {}", replica(*at))
            }
            Action::Read { at, slot } => format!("a client reads slot {slot} at {}", replica(*at)),
            Action::HandOver { at, to } => format!("{} is asked to hand over to n{}", replica(*at), to + 1),
            Action::Split { at } => format!("{} is asked to split off slot 1", replica(*at)),
            Action::Change { bucket, change: what } => {
                format!("the blueprint changes{}: {}", child(*bucket), change(what))
            }
        }
    }

    fn child_text(&self, world: &World, epoch: u8) -> &'static str {
        let Some(blueprint) = self.metas.get(world.meta).at(epoch) else { return "" };
        match blueprint.buckets.get(&CHILD) {
            None if blueprint.is_retired(CHILD) => ", child forgotten",
            None => "",
            Some(Bucket { bond: Some(Bond::Merged { .. }), .. }) => ", child absorbed",
            Some(Bucket { bond: Some(_), .. }) => ", child bound",
            Some(Bucket { bond: None, .. }) => ", child registered",
        }
    }

    pub(super) fn tell_effect(&mut self, at: usize, effect: &Effect) {
        let mut told: Vec<String> = Vec::new();
        for letter in &effect.letters {
            let letter = self.letters.get(*letter);
            told.push(format!("sends {} to {}", message(letter), letter.envelope.to.node));
        }
        told.extend(
            effect.proposals.iter().map(|(term, what)| format!("proposes in place of {term}: {}", change(what))),
        );
        told.extend(effect.questions.iter().map(|_| "asks for the blueprint".into()));
        told.extend(effect.registers.iter().map(|(_, _, at)| format!("tells of its Split {at}")));
        told.extend(effect.merges.iter().map(|at| format!("tells of its Absorb {at}")));
        told.extend(effect.forks.iter().map(|(fork, _)| format!("forks the child at {}", fork.at)));
        told.extend(effect.deeds.iter().map(deed));
        if let (false, Some(all)) = (told.is_empty(), &mut self.told) {
            all.push(format!("{} {}", replica(at), told.join("; ")));
        }
    }
}

fn replica(at: usize) -> String {
    format!("n{}{}", node_of(at) + 1, child(bucket_of(at)))
}

fn child(bucket: usize) -> &'static str {
    if bucket == 0 { "" } else { "'s child" }
}

fn deed(deed: &Deed) -> String {
    match deed {
        Deed::Acknowledged { write } => format!("ACKNOWLEDGES write {write}"),
        Deed::Refused { write } => format!("refuses or forwards write {write}"),
        Deed::Uncertain { write } => format!("calls write {write} uncertain"),
        Deed::Read { slot, sees, .. } => {
            let seen: Vec<u8> = (0..8).filter(|write| sees & (1 << write) != 0).collect();
            format!("ANSWERS a read of slot {slot} with writes {seen:?}")
        }
        Deed::Reigned { term } => format!("reigns in {term}"),
        Deed::Serving { term } => format!("SERVES in {term}"),
        Deed::SteppedDown { term } => format!("steps down from {term}"),
        Deed::Joint => "begins joint mode".into(),
        Deed::Drained => "has drained".into(),
        Deed::Dropped(why) => format!("drops it: {why:?}"),
        Deed::Frozen => "has come to its end".into(),
        Deed::Absorbed => "ABSORBS the child".into(),
    }
}

fn message(letter: &Letter) -> String {
    match &letter.envelope.message {
        Message::Prepare { term, previous, entries, commit, .. } => {
            format!("Prepare({term} after {previous}: {}; commit {commit})", entries_text(entries))
        }
        Message::Prepared { term, upto, progress, .. } => {
            format!("Prepared({term} upto {upto}, applied {})", progress.applied)
        }
        Message::Differs { term, last, known, .. } => format!("Differs({term} last {last}, known {known})"),
        Message::Outranked { promised } => format!("Outranked({promised})"),
        Message::Beacon { term, commit, .. } => format!("Beacon({term} commit {commit})"),
        Message::BeaconAck { term, progress, .. } => format!("BeaconAck({term} applied {})", progress.applied),
        Message::Begin { term, base, refuted, owned, .. } => match refuted {
            None => format!("Begin({term} base {base}, slots {owned})"),
            Some(at) => format!("Begin({term} base {base}, slots {owned}, {at} is refuted)"),
        },
        Message::Fill { term, image } => format!("Fill({term} slots {} as of {})", image.covered, image.as_of),
        Message::Filled { term, slots, .. } => format!("Filled({term} slots {slots})"),
        Message::Abdicate { term } => format!("Abdicate({term})"),
    }
}

fn entries_text(entries: &Entries) -> String {
    let text = |entry: EntryRef<'_>| match &entry.payload() {
        Payload::Reign => format!("{} Reign", entry.at),
        Payload::Command { body, .. } => format!("{} write {}", entry.at, body[0]),
        Payload::Split { .. } => format!("{} Split", entry.at),
        Payload::Freeze { .. } => format!("{} Freeze", entry.at),
        Payload::Absorb { .. } => format!("{} Absorb", entry.at),
    };
    if entries.is_empty() { "nothing".into() } else { entries.iter().map(text).collect::<Vec<_>>().join(", ") }
}

fn record(record: &phaser::Record) -> String {
    match record {
        phaser::Record::Found { .. } => "its founding".into(),
        phaser::Record::Adopt(incarnation) => format!("incarnation {incarnation}"),
        phaser::Record::Promise(term) => format!("promise of {term}"),
        phaser::Record::Append { entries, commit, .. } => {
            let hint = commit.map_or(String::new(), |at| format!(", commit {at}"));
            entries_text(entries) + &hint
        }
        phaser::Record::Commit(at) => format!("commit {at}"),
        phaser::Record::StartOver { base, .. } => format!("starting over at {base}"),
        phaser::Record::Save(image) | phaser::Record::Take(image) => format!("tables as of {}", image.as_of),
        phaser::Record::Cut { base, .. } => format!("cut at {base}"),
    }
}

fn change(change: &Change) -> String {
    let fate = |fate: &Fate| match fate {
        Fate::Leaves => "leaves",
        Fate::Stalled => "stays on as candidate",
        Fate::Lost => "is lost",
    };
    match change {
        Change::Enlist { node } => format!("enlist {node}"),
        Change::Drop { candidate } => format!("drop {}", candidate.node),
        Change::Seat { candidate, .. } => format!("seat {}", candidate.node),
        Change::Dismiss { secondary, fate: f } => format!("dismiss {}, who {}", secondary.node, fate(f)),
        Change::HandOver { to, .. } => format!("hand over to {}", to.node),
        Change::Usurp { to, fate: f } => format!("{} usurps, the former primary {}", to.node, fate(f)),
        Change::Disown { heir } => format!("{} is an heir no longer", heir.node),
        Change::Renew { primary } => format!("a new Reign of {}", primary.node),
        other => format!("{other:?}"),
    }
}
