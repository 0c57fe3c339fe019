//! Each command: what it makes of the blueprint, when it is refused, and that asking twice is asking once.

use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use super::{Town, add_node, create};
use crate::*;

fn node(id: u64) -> NodeId {
    NodeId(id)
}

fn succeed(bucket: u64, replaces: u64, change: Change) -> Command {
    Command::Succeed { bucket: BucketId(bucket), replaces: Term(replaces), change }
}

fn slots(first: u16, last: u16) -> SlotSet {
    SlotSet::range(Slot(first), Slot(last))
}

fn register(parent: u64, child: u64, first: u16, last: u16) -> Command {
    let at = Position::new(1, 7);
    Command::Register { parent: BucketId(parent), child: BucketId(child), slots: slots(first, last), at, term: at.term }
}

#[test]
fn nodes_come_go_and_change() {
    let mut town = Town::of(2);
    assert_eq!(town.blueprint.epoch, Epoch(2));
    town.repeat(&add_node(1, "a"));
    town.accept(&add_node(1, "alpha"));
    assert_eq!(town.blueprint.node_named("alpha").map(|n| n.id), Some(node(1)));
    assert_eq!(town.refuse(&add_node(3, "b")), Refusal::NodeNameTaken { name: "b".into(), by: node(2) });

    // A wiped disk comes back as a new id under the old name, once that departed; and then the old one cannot return.
    town.accept(&Command::Depart { node: node(2) });
    town.repeat(&Command::Depart { node: node(2) });
    town.accept(&add_node(3, "b"));
    assert_eq!(
        town.refuse(&Command::Return { node: node(2) }),
        Refusal::NodeNameTaken { name: "b".into(), by: node(3) }
    );
    town.accept(&add_node(2, "beta"));
    assert!(!town.blueprint.is_present(node(2)), "a new name is no return");
    town.accept(&Command::Return { node: node(2) });
    town.repeat(&Command::Return { node: node(2) });

    town.accept(&Command::RemoveNode { node: node(2) });
    for command in
        [Command::RemoveNode { node: node(2) }, Command::Depart { node: node(2) }, Command::Return { node: node(2) }]
    {
        assert_eq!(town.refuse(&command), Refusal::UnknownNode(node(2)));
    }
}

#[test]
fn names_and_addresses_have_limits() {
    let mut town = Town::of(0);
    for name in ["", "two words", "line\n", &"x".repeat(129)] {
        assert_eq!(town.refuse(&add_node(1, name)), Refusal::BadName(name.into()));
    }
    for addresses in [vec!["x".to_string(); 17], vec![String::new()], vec!["x".repeat(257)]] {
        let count = addresses.len();
        let command = Command::AddNode { id: node(1), name: "a".into(), zone: String::new(), addresses };
        assert_eq!(town.refuse(&command), Refusal::BadAddresses { count });
    }
}

#[test]
fn a_keyspace_is_cut_evenly() {
    let mut town = Town::of(3);
    let applied = town.accept(&create("default", 2, &[&[1, 2], &[2, 3], &[3, 1]]));
    let id = applied.keyspace.unwrap();
    let b = &town.blueprint;
    assert_eq!(b.keyspace_named("default").unwrap().min_in_sync, 2);
    let buckets: Vec<(String, u64)> = b.buckets_of(id).map(|k| (k.slots.to_string(), k.id.0)).collect();
    assert_eq!(buckets, [("0-5460".into(), 1), ("5461-10921".into(), 2), ("10922-16383".into(), 3)]);
    let government = b.government(BucketId(2)).unwrap();
    assert_eq!((government.primary, &government.secondaries), (Member::new(2, 4), &vec![Member::new(3, 4)]));
    assert_eq!((government.term, applied.epoch), (Term(1), Epoch(4)));
    for (slot, bucket) in [(0, 1), (5460, 1), (5461, 2), (16383, 3)] {
        assert_eq!(b.bucket_of(id, Slot(slot)).unwrap().id, BucketId(bucket));
    }
    assert!(b.bucket_of(KeyspaceId(9), Slot(0)).is_none());
    assert_eq!(
        town.refuse(&create("default", 1, &[&[1]])),
        Refusal::KeyspaceNameTaken { name: "default".into(), by: id }
    );
}

#[test]
fn as_many_buckets_as_slots() {
    let mut town = Town::of(1);
    let one: &[u64] = &[1];
    town.accept(&create("fine", 1, &vec![one; 16384]));
    assert_eq!(town.blueprint.bucket_of(KeyspaceId(1), Slot(77)).unwrap().slots, SlotSet::single(Slot(77)));
    assert_eq!(town.refuse(&create("finer", 1, &vec![one; 16385])), Refusal::BadBucketCount { rows: 16385 });
}

#[test]
fn keyspaces_that_cannot_be() {
    let mut town = Town::of(3);
    town.accept(&Command::Depart { node: node(3) });
    let min = |min: u8| {
        let mut command = create("k", 2, &[&[1, 2]]);
        if let Command::CreateKeyspace { min_in_sync, .. } = &mut command {
            *min_in_sync = Some(min);
        }
        command
    };
    let cases = [
        (create("", 1, &[&[1]]), Refusal::BadName(String::new())),
        (create("k", 0, &[&[1]]), Refusal::BadReplicas(0)),
        (min(0), Refusal::BadMinimum { min: 0, replicas: 2 }),
        (min(3), Refusal::BadMinimum { min: 3, replicas: 2 }),
        (create("k", 1, &[]), Refusal::BadBucketCount { rows: 0 }),
        (create("k", 2, &[&[1, 2], &[]]), Refusal::BadPlacement { row: 1, nodes: 0, min: 2, replicas: 2 }),
        (create("k", 3, &[&[1]]), Refusal::BadPlacement { row: 0, nodes: 1, min: 2, replicas: 3 }),
        (create("k", 1, &[&[1, 2]]), Refusal::BadPlacement { row: 0, nodes: 2, min: 1, replicas: 1 }),
        (create("k", 2, &[&[1, 1]]), Refusal::PlacedTwice { row: 0, node: node(1) }),
        (create("k", 2, &[&[1, 3]]), Refusal::NodeDeparted(node(3))),
        (create("k", 2, &[&[1, 4]]), Refusal::UnknownNode(node(4))),
    ];
    for (command, refusal) in cases {
        assert_eq!(town.refuse(&command), refusal);
    }
    town.accept(&min(1));
}

#[test]
fn succession() {
    let mut town = Town::of(4);
    town.accept(&create("k", 3, &[&[1, 2]]));
    town.accept(&Command::Depart { node: node(4) });
    assert_eq!(town.refuse(&succeed(9, 1, Change::Enlist { node: node(3) })), Refusal::UnknownBucket(BucketId(9)));
    assert_eq!(town.refuse(&succeed(1, 1, Change::Enlist { node: node(4) })), Refusal::NodeDeparted(node(4)));
    assert_eq!(town.refuse(&succeed(1, 1, Change::Enlist { node: node(5) })), Refusal::UnknownNode(node(5)));
    let too_high = succeed(1, 1, Change::SetMinInSync { min: 4 });
    assert_eq!(town.refuse(&too_high), Refusal::BadMinimum { min: 4, replicas: 3 });

    let applied = town.accept(&succeed(1, 1, Change::Enlist { node: node(3) }));
    let candidate = Member::new(3, applied.epoch.0);
    assert_eq!(town.blueprint.government(BucketId(1)).unwrap().candidates, vec![candidate]);

    // Two successors of one term: the second is told which term it is by now.
    let stale = Unlawful::StaleTerm { proposed: Term(1), current: Term(2) };
    assert_eq!(town.refuse(&succeed(1, 1, Change::Renew { primary: Member::new(1, 5) })), stale.into());
    let seat = Change::Seat { candidate, by: Member::new(1, 5) };
    town.accept(&succeed(1, 2, seat.clone()));
    assert_eq!(town.refuse(&succeed(1, 3, seat)), Unlawful::NotACandidate(candidate).into());
}

#[test]
fn a_node_goes_when_nothing_names_it() {
    let mut town = Town::of(2);
    town.accept(&create("k", 2, &[&[1, 2], &[2, 1]]));
    town.accept(&Command::Depart { node: node(2) });
    let still = Refusal::NodeStillNamed { node: node(2), bucket: BucketId(1), buckets: 2 };
    assert_eq!(town.refuse(&Command::RemoveNode { node: node(2) }), still);
    town.accept(&succeed(1, 1, Change::Dismiss { secondary: Member::new(2, 3), fate: Fate::Leaves }));
    town.accept(&succeed(2, 1, Change::Usurp { to: Member::new(1, 3), fate: Fate::Lost }));
    let still = Refusal::NodeStillNamed { node: node(2), bucket: BucketId(1), buckets: 1 };
    assert_eq!(town.refuse(&Command::RemoveNode { node: node(2) }), still, "an heir is still needed");
    town.accept(&succeed(1, 2, Change::SetMinInSync { min: 1 }));
    town.accept(&Command::RemoveNode { node: node(2) });
}

#[test]
fn a_removed_keyspace_stays_until_everyone_has_erased() {
    let mut town = Town::of(3);
    let id = town.accept(&create("k", 2, &[&[1, 2], &[2, 1]])).keyspace.unwrap();
    town.accept(&succeed(1, 1, Change::Enlist { node: node(3) }));
    let erased = |bucket, n, i| Command::Erased { bucket: BucketId(bucket), holder: Member::new(n, i) };
    let governed = Refusal::BucketGoverned { bucket: BucketId(1), term: Term(2) };
    assert_eq!(town.refuse(&erased(1, 1, 4)), governed);
    assert_eq!(
        town.refuse(&Command::RemoveKeyspace { keyspace: KeyspaceId(9) }),
        Refusal::UnknownKeyspace(KeyspaceId(9))
    );

    town.accept(&Command::RemoveKeyspace { keyspace: id });
    town.repeat(&Command::RemoveKeyspace { keyspace: id });
    let holders = vec![Member::new(1, 4), Member::new(2, 4), Member::new(3, 5)];
    assert_eq!(town.blueprint.buckets[&BucketId(1)].rule, Rule::Removed { term: Term(3), holders });
    assert!(town.blueprint.is_removed(id) && town.blueprint.bucket_of(id, Slot(0)).is_none());
    let renew = Change::Renew { primary: Member::new(1, 4) };
    assert_eq!(town.refuse(&succeed(1, 3, renew)), Refusal::BucketRemoved(BucketId(1)));
    town.accept(&create("k", 1, &[&[1]]));

    town.accept(&erased(1, 1, 4));
    town.repeat(&erased(1, 1, 4));
    town.repeat(&erased(1, 3, 1));
    let holds = Refusal::NodeStillHolds { node: node(3), bucket: BucketId(1) };
    assert_eq!(town.refuse(&Command::RemoveNode { node: node(3) }), holds);
    town.accept(&Command::Depart { node: node(3) });
    town.accept(&Command::RemoveNode { node: node(3) });
    town.accept(&erased(1, 2, 4));
    assert!(town.blueprint.is_retired(BucketId(1)));
    town.repeat(&erased(1, 2, 4));
    assert_eq!(town.refuse(&succeed(1, 3, Change::SetMinInSync { min: 1 })), Refusal::BucketRetired(BucketId(1)));

    town.accept(&erased(2, 1, 4));
    assert!(town.blueprint.keyspaces.contains_key(&id));
    town.accept(&erased(2, 2, 4));
    assert!(!town.blueprint.keyspaces.contains_key(&id));
    assert_eq!(town.refuse(&erased(44, 1, 1)), Refusal::UnknownBucket(BucketId(44)));
}

#[test]
fn a_split_is_registered() {
    let mut town = Town::of(3);
    let id = town.accept(&create("k", 2, &[&[1, 2]])).keyspace.unwrap();
    let child = town.accept(&Command::ReserveBucket { parent: BucketId(1) }).bucket.unwrap();
    assert_eq!(child, BucketId(257));
    // The government is the one of now, not of the Split.
    town.accept(&succeed(1, 1, Change::Enlist { node: node(3) }));
    town.accept(&succeed(1, 2, Change::Dismiss { secondary: Member::new(2, 4), fate: Fate::Leaves }));
    town.accept(&register(1, 257, 100, 200));
    town.repeat(&register(1, 257, 100, 200));
    let b = &town.blueprint;
    assert_eq!(b.government(child), b.government(BucketId(1)));
    assert_eq!(b.government(child).unwrap().term, Term(3));
    assert_eq!(b.government(child).unwrap().heirs.len(), 1);
    assert_eq!(b.buckets[&child].birth, Birth::Split { parent: BucketId(1), at: Position::new(1, 7) });
    assert_eq!(b.buckets[&BucketId(1)].slots.to_string(), "0-99,201-16383");
    assert_eq!(b.bucket_of(id, Slot(150)).unwrap().id, child);
    assert!(b.reserved.is_empty());

    // The child may have split, moved on, or be on its way out: told again, it is still the same split.
    let grandchild = town.accept(&Command::ReserveBucket { parent: child }).bucket.unwrap();
    town.accept(&register(257, grandchild.0, 150, 200));
    town.accept(&succeed(257, 3, Change::Renew { primary: Member::new(1, 4) }));
    town.repeat(&register(1, 257, 100, 200));
    town.accept(&Command::RemoveKeyspace { keyspace: id });
    town.repeat(&register(1, 257, 100, 200));
}

#[test]
fn splits_that_cannot_be() {
    let mut town = Town::of(1);
    let id = town.accept(&create("k", 1, &[&[1], &[1]])).keyspace.unwrap();
    assert_eq!(town.refuse(&register(1, 257, 0, 9)), Refusal::NotReserved(BucketId(257)));
    town.accept(&Command::ReserveBucket { parent: BucketId(1) });
    assert_eq!(town.refuse(&register(2, 257, 8200, 8209)), Refusal::NotReserved(BucketId(257)), "for another bucket");
    let nowhere = Command::ReserveBucket { parent: BucketId(4400) };
    assert_eq!(town.refuse(&nowhere), Refusal::UnknownBucket(BucketId(4400)));
    assert_eq!(town.refuse(&register(1, 2, 0, 9)), Refusal::BornElsewhere(BucketId(2)));
    let strangers = Refusal::NotOfParent { parent: BucketId(1), slots: slots(8000, 9000) };
    assert_eq!(town.refuse(&register(1, 257, 8000, 9000)), strangers);
    for at in [Position::new(2, 7), Position::new(1, 0), Position::new(0, 1), Position::new(1, u64::MAX)] {
        let command =
            Command::Register { parent: BucketId(1), child: BucketId(257), slots: slots(0, 9), at, term: Term(1) };
        assert_eq!(town.refuse(&command), Refusal::NoSuchSplit { parent: BucketId(1), at, term: Term(1) });
    }

    town.accept(&register(1, 257, 0, 9));
    assert_eq!(town.refuse(&register(2, 257, 9000, 9009)), Refusal::BornElsewhere(BucketId(257)), "another birth");
    town.accept(&Command::ReserveBucket { parent: BucketId(1) });
    town.accept(&Command::RemoveKeyspace { keyspace: id });
    assert_eq!(town.refuse(&register(1, 513, 10, 19)), Refusal::BucketRetired(BucketId(513)));
    town.accept(&Command::Erased { bucket: BucketId(257), holder: Member::new(1, 2) });
    assert_eq!(town.refuse(&register(1, 257, 0, 9)), Refusal::BucketRetired(BucketId(257)));
}

#[test]
fn refusals_speak_to_operators() {
    let mut town = Town::of(1);
    town.accept(&create("k", 1, &[&[1]]));
    let text = town.refuse(&Command::RemoveNode { node: node(1) }).to_string();
    assert_eq!(
        text,
        "n1 still has a part in 1 bucket(s), b1 among them: removing it could lose their data. Drain it first"
    );
    let text = town.refuse(&succeed(1, 4, Change::SetMinInSync { min: 1 })).to_string();
    assert_eq!(text, "the proposal replaces t4, but the bucket is in t1: read the blueprint and decide again");
}
