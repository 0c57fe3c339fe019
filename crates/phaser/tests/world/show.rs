//! Everything that is emitted, each on one line.

use std::fmt::Display;

use blueprint::{Change, Fate, Government, Instant, Member};
use phaser::{Entries, EntryRef, Envelope, Event, Image, Message, Output, Payload, Progress, Record};

use super::{ORIGIN, Suffix};

/// News is shown even when the script asks for quiet: what clients and operators would notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Talk,
    News,
}

pub(super) fn member(member: Member) -> String {
    if member.incarnation.0 == 1 { member.node.to_string() } else { member.to_string() }
}

/// On the clock of whoever says it, in milliseconds.
pub(super) fn moment(instant: Instant) -> String {
    match instant {
        Instant::ZERO => "@-".to_owned(),
        Instant::NEVER => "the end of time".to_owned(),
        Instant(micros) => {
            let micros = micros as i64 - ORIGIN.0 as i64;
            if micros % 1000 == 0 { format!("@{}", micros / 1000) } else { format!("@{:.3}", micros as f64 / 1000.0) }
        }
    }
}

pub(super) fn list<T: Display>(items: impl IntoIterator<Item = T>) -> String {
    items.into_iter().map(|item| item.to_string()).collect::<Vec<_>>().join(" ")
}

fn members(members: &[Member]) -> String {
    list(members.iter().map(|m| member(*m)))
}

pub(super) fn government(government: &Government) -> String {
    let mut line =
        format!("{}: {} leads {}", government.term, member(government.primary), members(&government.secondaries));
    if government.secondaries.is_empty() {
        line += "nobody";
    }
    for (what, who) in [("candidates", &government.candidates), ("heirs", &government.heirs)] {
        if !who.is_empty() {
            line += &format!(", {what} {}", members(who));
        }
    }
    line + &format!(", min {}", government.min_in_sync)
}

pub(super) fn change(change: &Change) -> String {
    let fate = |fate: &Fate| match fate {
        Fate::Leaves => "",
        Fate::Stalled => ", who stalled",
        Fate::Lost => ", who lost its data",
    };
    match change {
        Change::Enlist { node } => format!("enlist {node}"),
        Change::Drop { candidate } => format!("drop {}", member(*candidate)),
        Change::Seat { candidate, .. } => format!("seat {}", member(*candidate)),
        Change::Dismiss { secondary, fate: f } => format!("dismiss {}{}", member(*secondary), fate(f)),
        Change::HandOver { to, .. } => format!("hand over to {}", member(*to)),
        Change::Usurp { to, fate: f } => format!("usurp by {}{}", member(*to), fate(f)),
        Change::Renew { primary } => format!("renew {}", member(*primary)),
        Change::Disown { heir } => format!("disown {}", member(*heir)),
        Change::SetMinInSync { min } => format!("min {min}"),
    }
}

fn entry(entry: &EntryRef<'_>, clocks: bool) -> String {
    let what = match &entry.payload() {
        Payload::Reign => "Reign".to_owned(),
        Payload::Command { slot, body } if slot.0 == 0 => String::from_utf8_lossy(body).into_owned(),
        Payload::Command { slot, body } => format!("{}@{slot}", String::from_utf8_lossy(body)),
        Payload::Split { child, slots } => format!("Split {child} {slots}"),
        Payload::Freeze { into } => format!("Freeze for {into}"),
        Payload::Absorb { from, freeze, slots, .. } => format!("Absorb {from} as of {freeze}, slots {slots}"),
    };
    let clock = if clocks { format!(" ({})", seconds(entry.clock)) } else { String::new() };
    format!("{} {what}{clock}", entry.at)
}

fn seconds(micros: u64) -> String {
    format!("{}.{:03}s", micros / 1_000_000, micros / 1000 % 1000)
}

fn entries(all: &Entries, clocks: bool) -> String {
    let shown: Vec<String> = all.iter().map(|e| entry(&e, clocks)).collect();
    format!("[{}]", shown.join(", "))
}

fn image(image: &Image) -> String {
    let tables: Vec<String> =
        image.tables.iter().map(|(slot, table)| format!("{slot}: {}", String::from_utf8_lossy(table))).collect();
    format!("slots {} as of {} [{}]", image.covered, image.as_of, tables.join(", "))
}

fn progress(progress: &Progress) -> String {
    if progress.missing.is_empty() {
        format!("applied {}", progress.applied)
    } else {
        format!("applied {}, misses {}", progress.applied, progress.missing)
    }
}

pub(super) fn envelope(envelope: &Envelope, bucket: blueprint::BucketId, clocks: bool) -> String {
    let Envelope { from, to, message } = envelope;
    let at = Suffix(bucket);
    let (name, term) = (message.name(), message.term());
    let head = format!("{}{at}->{}{at} {name} {term}", member(*from), member(*to));
    match message {
        Message::Prepare { previous, entries: all, commit, sent, .. } => {
            format!("{head} after {previous} {} commit {commit} {}", entries(all, clocks), moment(*sent))
        }
        Message::Prepared { upto, progress: p, sent, .. } => {
            format!("{head} upto {upto}, {} {}", progress(p), moment(*sent))
        }
        Message::Differs { last, known, progress: p, sent, .. } => {
            format!("{head} ends with {last}, sure of {known}, {} {}", progress(p), moment(*sent))
        }
        Message::Beacon { commit, sent, .. } => format!("{head} commit {commit} {}", moment(*sent)),
        Message::BeaconAck { progress: p, sent, .. } => format!("{head} {} {}", progress(p), moment(*sent)),
        Message::Begin { base, refuted, owned, .. } => {
            let refuted = refuted.map_or_else(String::new, |at| format!(" whatever follows from {at}"));
            format!("{head} after {base} slots {owned}{refuted}")
        }
        Message::Fill { image: i, .. } => format!("{head} {}", image(i)),
        Message::Filled { slots, progress: p, .. } => format!("{head} slots {slots}, {}", progress(p)),
        Message::Outranked { .. } | Message::Abdicate { .. } => head,
    }
}

pub(super) fn record(record: &Record, clocks: bool) -> String {
    match record {
        Record::Found { me, promised, base, owned, image: i, .. } => {
            let missing = owned.difference(&i.covered);
            let misses = if missing.is_empty() { String::new() } else { format!(", misses {missing}") };
            format!("found {} slots {owned} after {base} promised {promised}{misses}", member(*me))
        }
        Record::Adopt(incarnation) => format!("adopt {incarnation}"),
        Record::Promise(term) => format!("promise {term}"),
        Record::Append { previous, entries: all, commit } => {
            let hint = commit.map_or(String::new(), |at| format!(", commit {at}"));
            format!("after {previous} {}{hint}", entries(all, clocks))
        }
        Record::Commit(at) => format!("commit {at}"),
        Record::StartOver { base, owned, .. } => format!("start over after {base} slots {owned}"),
        Record::Save(i) => format!("save {}", image(i)),
        Record::Take(i) => format!("take {}", image(i)),
        Record::Cut { base, owned, .. } => format!("cut up to {base} slots {owned}"),
    }
}

/// None for what is shown by whoever does it.
pub(super) fn output(
    name: &str,
    output: &Output,
    log: &phaser::Log,
    clocks: bool,
    requests: &[String],
) -> (Kind, Option<String>) {
    let applied = |index: &blueprint::Index| entry(&log.get(*index).expect("it is in the log"), clocks);
    let request = |ticket: &phaser::Ticket| &requests[ticket.0 as usize];
    let bucket = name.split_once('.').map_or(super::FIRST_BUCKET.0, |(_, b)| b[1..].parse().expect("a bucket's name"));
    match output {
        Output::Send(e) => (Kind::Talk, Some(envelope(e, blueprint::BucketId(bucket), clocks))),
        Output::Write { records, .. } => {
            let all: Vec<String> = records.iter().map(|r| record(r, clocks)).collect();
            (Kind::Talk, Some(format!("{name} writes {}", all.join("; "))))
        }
        Output::Release { .. } => (Kind::Talk, Some(format!("{name} has no use for what was stored"))),
        Output::Store { image, .. } => (
            Kind::Talk,
            Some(format!("{name} stores slots {} as of {}, changed {}", image.covered, image.as_of, image.replaced)),
        ),
        Output::Apply { index, ticket: None, .. } => (Kind::Talk, Some(format!("{name} applies {}", applied(index)))),
        Output::Apply { index, ticket: Some(_), .. } => {
            (Kind::News, Some(format!("{name} applies {} and answers", applied(index))))
        }
        Output::Serve { ticket, clock, good_until } => {
            let clock = if clocks { format!(" at {}", seconds(*clock)) } else { String::new() };
            let line =
                format!("{name} serves {} [{{table}}]{clock}, good until {}", request(ticket), moment(*good_until));
            (Kind::News, Some(line))
        }
        Output::Refuse { ticket, why } => (Kind::News, Some(format!("{name} refuses {}: {why:?}", request(ticket)))),
        Output::Forward { ticket } => (Kind::News, Some(format!("{name} forwards {}", request(ticket)))),
        Output::Uncertain { ticket } => (Kind::News, Some(format!("{name} calls {} uncertain", request(ticket)))),
        Output::Fork(fork) => {
            let how = if fork.whole { "forks" } else { "drops the slots of" };
            (Kind::News, Some(format!("{name} {how} {}: slots {} at {}", fork.child, fork.slots, fork.at)))
        }
        Output::Discard { slots } => (Kind::Talk, Some(format!("{name} discards slots {slots}"))),
        Output::Install { image: i } => (Kind::Talk, Some(format!("{name} installs {}", image(i)))),
        Output::SendImage { .. } => (Kind::Talk, None),
        Output::Propose { term, change: c } => {
            (Kind::News, Some(format!("{name} proposes, to replace {term}: {}", change(c))))
        }
        Output::Register { child, slots, at } => {
            (Kind::News, Some(format!("{name} registers {child}: slots {slots} at {at}")))
        }
        Output::Frozen { into } => (Kind::News, Some(format!("{name} has come to its end, for {into}"))),
        Output::SeekFrozen { .. } => (Kind::Talk, None),
        Output::Absorb { from, slots, .. } => (Kind::News, Some(format!("{name} absorbs {from}: slots {slots}"))),
        Output::Merge { absorbed, at } => {
            (Kind::News, Some(format!("{name} tells that it has absorbed {absorbed} at {at}")))
        }
        Output::Ask { nonce } => (Kind::News, Some(format!("{name} asks for the blueprint ?{nonce}"))),
        Output::Event(event) => {
            (if matches!(event, Event::Dropped(_)) { Kind::Talk } else { Kind::News }, Some(news(name, event)))
        }
    }
}

fn news(name: &str, event: &Event) -> String {
    match event {
        Event::Reigned { term, at } => format!("{name} * reigns in {term} from {at}"),
        Event::Serving { term } => format!("{name} * serves in {term}"),
        Event::SteppedDown { term } => format!("{name} * stepped down from {term}"),
        Event::JointBegan { term, candidate } => format!("{name} * counts {} in {term}", member(*candidate)),
        Event::Drained { term } => format!("{name} * drained in {term}"),
        Event::Dropped(why) => format!("{name} * dropped that: {why:?}"),
    }
}
