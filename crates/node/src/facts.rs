//! What the reactor hears of the replicas: the phasers' standing, in its own words.

use blueprint::{Conduct, Instant};
use phaser::{Growing, HandingOver, Standing};
use reactor::{BucketRow, Growth, HandOver, Holding, Leading, Part, Parting, Peer, Role};

use crate::replica::Replica;

pub(crate) fn holding<C: Conduct>(replica: &Replica<C>) -> Holding {
    let phaser = &replica.phaser;
    Holding {
        member: phaser.me(),
        durable: replica.unborn.is_none(),
        known: phaser.known_epoch(),
        promised: phaser.promised(),
        promise_safe: phaser.is_promise_safe(),
        role: role(phaser.standing()),
        base: phaser.log().base().index,
        applied: phaser.applied(),
        commit: phaser.commit(),
        last: phaser.log().last(),
        missing: phaser.missing().len(),
        bytes: told(replica.tables.bytes(), phaser.is_whole()),
        heard: replica.heard,
        splits: phaser.partings().into_iter().map(parting).collect(),
        owed_to: None,
        frozen: phaser.is_frozen(),
        awaits: phaser.awaits_frozen(),
    }
}

/// What is whole changes a little all the time, and nobody is to hear of that: the directory would be full of it. While it is being filled it
/// changes a lot, and somebody looks on.
fn told(bytes: u64, is_whole: bool) -> u64 {
    if is_whole { roughly(bytes) } else { bytes }
}

/// To a sixteenth, or so.
pub(crate) fn roughly(bytes: u64) -> u64 {
    let below = (u64::BITS - bytes.leading_zeros()).saturating_sub(5);
    bytes >> below << below
}

pub(crate) fn aside(durable: &phaser::Durable) -> BucketRow {
    // Tables that came with more of the log than is left are of no use to it.
    let last = durable.log.last();
    let useful = durable.as_of.where_value(|as_of| *as_of <= last.index);
    BucketRow {
        incarnation: durable.me.incarnation,
        promised: durable.promised,
        part: Part::Aside,
        applied: durable.commit,
        last,
        missing: durable.owned.difference(&useful).len(),
        amiss: 0,
        bytes: durable.tables.values().map(|table| table.len() as u64).sum(),
    }
}

fn role(standing: Standing) -> Role {
    match standing {
        Standing::Following => Role::Following,
        Standing::Restarted { term } => Role::Restarted { term },
        Standing::Ascending { term, until } => Role::Ascending { term, until },
        Standing::Leading(leading) => Role::Leading(Leading {
            term: leading.term,
            reign: leading.reign,
            serving: leading.serving,
            succession: leading.succession,
            reads_until: leading.reads_until,
            growth: match leading.growth {
                Growing::None => Growth::None,
                Growing::Asking { candidate } => Growth::Asking { candidate },
                Growing::Joint { candidate, level } => Growth::Joint { candidate, level },
                Growing::Proposed { candidate } => Growth::Proposed { candidate },
            },
            hand_over: match leading.hand_over {
                HandingOver::None => HandOver::None,
                HandingOver::Draining { to, told, until } => HandOver::Draining { to, told, until },
                HandingOver::Proposed { to } => HandOver::Proposed { to },
            },
            peers: leading.peers.into_iter().map(peer).collect(),
        }),
    }
}

fn peer(following: phaser::Following) -> Peer {
    let phaser::Following { member, upto, applied, missing, lease, heard } = following;
    Peer { member, upto, applied, missing, lease, heard }
}

fn parting(parting: phaser::Parting) -> Parting {
    let phaser::Parting { child, at, applied, registered, forked } = parting;
    Parting { child, at, applied, registered, forked }
}

/// A word from whoever leads counts as one only if the replica listens to it.
pub(crate) fn hears<C: Conduct>(replica: &mut Replica<C>, message: &phaser::Message, now: Instant) {
    if message.is_order() && message.term() >= replica.phaser.promised() {
        replica.heard = now;
    }
}
