//! Random histories: whatever is asked, in whatever order, the blueprint stays sound, counts its changes, and survives being
//! written, read, sent in pieces and damaged.

use alloc::vec::Vec;

use proptest::prelude::*;

use super::{add_node, letter};
use crate::*;

/// Numbers from which a command is made once it is known what there is to choose from: so that most of them make sense.
type Dice = (u8, u16, u16, u16);

fn pick<T: Clone>(from: impl IntoIterator<Item = T>, die: u16) -> Option<T> {
    let all: Vec<T> = from.into_iter().collect();
    if all.is_empty() { None } else { Some(all[usize::from(die) % all.len()].clone()) }
}

fn command(b: &Blueprint, (kind, x, y, z): Dice) -> Command {
    let node = NodeId(u64::from(x % 7) + 1);
    match kind % 66 {
        0..4 => add_node(node.0, &letter(u64::from(y % 6) + 1)),
        4 => Command::Depart { node },
        5 => Command::Return { node },
        6 => Command::RemoveNode { node },
        7..9 => create_keyspace(b, x, y, z),
        9 => Command::RemoveKeyspace { keyspace: KeyspaceId(u32::from(x % 5) + 1) },
        10..14 => erased(b, x, y),
        14..16 => Command::ReserveBucket { parent: BucketId(1) },
        16..20 => register(b, x, y, z),
        20 => relieve(b, x),
        45..48 => bind(b, x, y, z),
        48..50 => merge(b, x, y, z),
        21..30 => operation(b, x, y, z),
        42 => Command::Mark { node, intent: intent(y), of: mark_of(b, z) },
        43..45 => Command::SetReplicas { keyspace: KeyspaceId(u32::from(x % 5) + 1), replicas: (y % 5) as u8 },
        50 => Command::Begin { node, life: u64::from(y % 40) },
        51 => repair(b, x, y, z),
        56..66 => lose_bound(b, x, y, z),
        52 => Command::SetAutoRebalance { on: !z.is_multiple_of(8), by: "eve".into() },
        53..56 => rebalance(b, x, y, z),
        _ => succeed(b, x, y, z),
    }
}

/// Or, often, what has to be done before that is possible.
fn rebalance(b: &Blueprint, x: u16, y: u16, z: u16) -> Command {
    match b.unrest().filter(|_| !z.is_multiple_of(5)) {
        Some(Unrest::UnderWay(id)) => return Command::CancelOperation { id, why: "it was in the way".into() },
        Some(Unrest::Departed(node)) => return Command::Return { node },
        Some(Unrest::Drains(node)) => return Command::Mark { node, intent: Intent::Stays, of: None },
        Some(Unrest::Members(bucket)) => {
            let keyspace = b.buckets[&bucket].keyspace;
            let replicas = b.government(bucket).map_or(1, Government::size) as u8;
            return Command::SetReplicas { keyspace, replicas };
        }
        Some(Unrest::Merging(_)) | None => {}
    }
    let based_on = if z.is_multiple_of(9) { Epoch(u64::from(z)) } else { b.epoch };
    match start_operation(b, x, y, z) {
        Command::StartOperation { id, steps, .. } => Command::Rebalance { id, based_on, steps },
        other => other,
    }
}

fn bind(b: &Blueprint, x: u16, y: u16, z: u16) -> Command {
    let alike = |one: &&Bucket| b.buckets.keys().any(|other| one.id != *other && b.unlike(one.id, *other).is_none());
    let one = pick(b.buckets.values().filter(alike), x).or_else(|| pick(b.buckets.values(), x));
    let (absorbed, term) = one.map_or((BucketId(1), Term(1)), |k| (k.id, k.term()));
    let mates = b.buckets.values().filter(|k| k.id != absorbed && b.unlike(absorbed, k.id).is_none());
    let (into, other) =
        pick(mates, y).or_else(|| pick(b.buckets.values(), y)).map_or((absorbed, term), |k| (k.id, k.term()));
    Command::Bind { absorbed, into, replaces: (term, if z.is_multiple_of(9) { Term(1) } else { other }) }
}

fn merge(b: &Blueprint, x: u16, y: u16, z: u16) -> Command {
    let bound = b.buckets.values().filter_map(|k| match k.bond? {
        Bond::Fades { into, .. } | Bond::Merged { into, .. } => Some((k.id, into)),
        Bond::Absorbs { .. } => None,
    });
    let (absorbed, into) = pick(bound, x).unwrap_or((BucketId(u64::from(x % 20)), BucketId(u64::from(y % 20))));
    let term = b.buckets.get(&into).map_or(Term(1), Bucket::term);
    let at = Position { term: Term(term.0 + u64::from(z.is_multiple_of(13))), index: Index(u64::from(z % 50)) };
    Command::Merge { absorbed, into, at, term: stale(term, z) }
}

/// Now and then somebody tells who led a while ago.
fn stale(term: Term, z: u16) -> Term {
    if z.is_multiple_of(5) { Term(term.0.saturating_sub(u64::from(z % 3))) } else { term }
}

fn mark_of(b: &Blueprint, z: u16) -> Option<(OperationId, u32)> {
    let operation = pick(b.operations.values(), z / 3).filter(|_| z.is_multiple_of(3))?;
    Some((operation.id, operation.at.saturating_sub(u32::from(z.is_multiple_of(7)))))
}

fn intent(y: u16) -> Intent {
    [Intent::Stays, Intent::Drains, Intent::Goes][usize::from(y) % 3]
}

fn create_keyspace(b: &Blueprint, x: u16, y: u16, z: u16) -> Command {
    let nodes: Vec<NodeId> = b.nodes.keys().copied().filter(|n| b.is_present(*n) || x.is_multiple_of(11)).collect();
    let replicas = (y % 4) as u8;
    let row = |r: usize| {
        let wanted = usize::from(replicas).min(nodes.len());
        (0..wanted).map(|i| nodes[(r + i) % nodes.len()]).collect()
    };
    Command::CreateKeyspace {
        name: letter(u64::from(x % 3) + 1),
        kind: if z.is_multiple_of(2) { Kind::Store } else { Kind::Log },
        replicas,
        min_in_sync: (z.is_multiple_of(3)).then_some((z % 5) as u8),
        durability: if x.is_multiple_of(2) { Durability::Disk } else { Durability::Memory },
        placement: (0..usize::from(z % 5)).map(row).collect(),
    }
}

fn erased(b: &Blueprint, x: u16, y: u16) -> Command {
    let removed = b.buckets.values().filter(|k| k.government().is_none());
    let bucket = pick(removed, x).map_or(BucketId(u64::from(x % 20)), |k| k.id);
    let holder = match b.buckets.get(&bucket).map(|k| &k.rule) {
        Some(Rule::Removed { holders, .. }) => pick(holders.iter().copied(), y),
        _ => None,
    };
    Command::Erased { bucket, holder: holder.unwrap_or(Member::new(u64::from(y % 7), u64::from(x % 9))) }
}

fn register(b: &Blueprint, x: u16, y: u16, z: u16) -> Command {
    let parent = pick(b.buckets.values(), x);
    let (of, term) = parent.map_or((SlotSet::all(), Term(1)), |p| (p.slots.clone(), p.term()));
    let slots = match z % 8 {
        0 => SlotSet::range(Slot(y % Slot::COUNT), Slot::LAST),
        1 => of,
        2 => of.split_half().1.split_half().0,
        _ => of.split_half().1,
    };
    let child = pick(b.reserved.keys().copied(), y).unwrap_or(BucketId(u64::from(y % 20)));
    let at = Position { term: Term(term.0 + u64::from(z.is_multiple_of(13))), index: Index(u64::from(z)) };
    let term = stale(term, z);
    Command::Register { parent: parent.map_or(BucketId(1), |p| p.id), child, slots, at, term }
}

/// Whatever can be done for departed nodes; some of it decided a term ago.
fn relieve(b: &Blueprint, x: u16) -> Command {
    let mut parts = Vec::new();
    for bucket in b.buckets.values() {
        let Some(g) = bucket.government() else { continue };
        let departed = |m: &Member| !b.is_present(m.node);
        let fate = if x.is_multiple_of(2) { Fate::Leaves } else { Fate::Lost };
        let heirs = if g.secondaries.is_empty() { &g.heirs } else { &g.secondaries };
        let change = if let Some(secondary) = g.secondaries.iter().copied().find(departed) {
            Change::Dismiss { secondary, fate }
        } else if let (true, Some(to)) = (departed(&g.primary), pick(heirs.iter().copied(), x)) {
            Change::Usurp { to, fate }
        } else if let Some(candidate) = g.candidates.first().copied() {
            Change::Drop { candidate }
        } else {
            Change::SetMinInSync { min: 1 }
        };
        let replaces = if x.is_multiple_of(5) { Term(1) } else { g.term };
        parts.push(Succession { bucket: bucket.id, replaces, change });
    }
    Command::Relieve { parts }
}

fn operation(b: &Blueprint, x: u16, y: u16, z: u16) -> Command {
    let id = pick(b.operations.keys().copied(), x).unwrap_or(OperationId(u64::from(x % 5)));
    match z % 18 {
        0..4 => {
            let from_step = b.operations.get(&id).map_or(0, |o| o.at) + u32::from(y.is_multiple_of(9));
            Command::AdvanceOperation { id, from_step }
        }
        5..7 => Command::PauseOperation { id },
        4 | 7..9 | 17 => {
            let paused = b.operations.values().filter(|o| o.state == OperationState::Paused);
            Command::ResumeOperation { id: pick(paused, x).map_or(id, |o| o.id) }
        }
        9 => Command::CancelOperation { id, why: "it was decided otherwise".into() },
        16 => Command::ThrottleOperation { id, rate: (!y.is_multiple_of(3)).then_some(u64::from(y % 5)) },
        10 | 13 => {
            let planned = b.operations.values().filter(|o| o.state == OperationState::Planned);
            Command::ApplyOperation { id: pick(planned, x).map_or(id, |o| o.id) }
        }
        11..13 => match start_operation(b, x, y, z) {
            Command::StartOperation { id, by, steps } => Command::PlanOperation { id, by, steps },
            other => other,
        },
        _ => start_operation(b, x, y, z),
    }
}

fn start_operation(b: &Blueprint, x: u16, y: u16, z: u16) -> Command {
    let governed = b.buckets.values().filter(|k| k.government().is_some());
    let Some(parent) = pick(governed, x) else { return Command::ReserveBucket { parent: BucketId(1) } };
    let (bucket, g) = (parent.id, parent.government().expect("it was picked for that"));
    let node = NodeId(u64::from(y % 7) + 1);
    let old = pick(g.members(), y / 7).expect("there is a primary").node;
    let child = BucketId(b.next_bucket.next_child_of(bucket).0 + u64::from(y.is_multiple_of(11)));
    let split = Step::Split { bucket, child, slots: parent.slots.split_half().1 };
    let (enlist, seated) = (Step::Enlist { bucket, node }, Step::AwaitSeated { bucket, node });
    let (hand_over, dismiss) = (Step::HandOver { bucket, to: node }, Step::Dismiss { bucket, node: old });
    let mate = pick(b.buckets.values().filter(|k| k.id != bucket), z / 3).map_or(bucket, |k| k.id);
    let keyspace = parent.keyspace;
    let replicas = (y % 5) as u8;
    let steps = match z / 16 % 11 {
        10 => alloc::vec![Step::Merge { bucket, into: mate }],
        6 => alloc::vec![Step::Mark { node, intent: intent(x), was: None }, hand_over],
        7 => alloc::vec![Step::SetMinimum { bucket, min: replicas }, Step::SetReplicas { keyspace, replicas }, enlist],
        8 => alloc::vec![Step::SetReplicas { keyspace, replicas }, dismiss],
        9 => alloc::vec![Step::RemoveKeyspace { keyspace }, Step::AwaitErased { keyspace }],
        0 => alloc::vec![enlist, seated, dismiss],
        1 => alloc::vec![enlist, seated, hand_over, dismiss],
        2 => alloc::vec![Step::HandOver { bucket, to: old }],
        3 => alloc::vec![dismiss],
        5 => alloc::vec![Step::AwaitRestart { bucket, node: old, life: u64::from(x % 20) }],
        4 => alloc::vec![split, Step::Enlist { bucket: child, node }],
        _ => alloc::vec![enlist, split],
    };
    let id = OperationId(b.next_operation.0 - u64::from(x.is_multiple_of(13)));
    Command::StartOperation { id, by: "somebody: for a reason".into(), steps }
}

/// Of a bucket whose members have departed; if there is none, one that is present does.
fn repair(b: &Blueprint, x: u16, y: u16, z: u16) -> Command {
    let governed = || b.buckets.values().filter_map(|k| Some((k, k.government()?)));
    let is_present = |m: &Member| b.is_present(m.node);
    let lost = governed().filter(|(_, g)| !g.members().any(|m| is_present(&m)));
    match pick(lost, x) {
        Some((bucket, _)) => repair_this(b, bucket, y, z),
        None => depart_member(b, pick(governed(), x).map(|(_, g)| g)),
    }
}

/// The same of a bucket that is bound, if there is any; or what has to come before.
fn lose_bound(b: &Blueprint, x: u16, y: u16, z: u16) -> Command {
    let bound = b.buckets.values().filter(|k| k.bond.is_some_and(|bond| bond.partner().is_some()));
    let Some(bucket) = pick(bound, x) else { return bind(b, x, y, z) };
    if let Some(busy) = b.operation_on(bucket.id).filter(|_| !z.is_multiple_of(7)) {
        return Command::CancelOperation { id: busy.id, why: "it is lost".into() };
    }
    match bucket.government() {
        Some(g) if g.members().any(|m| b.is_present(m.node)) && !z.is_multiple_of(11) => depart_member(b, Some(g)),
        _ => repair_this(b, bucket, y, z),
    }
}

fn depart_member(b: &Blueprint, of: Option<&Government>) -> Command {
    let present = of.and_then(|g| g.members().find(|m| b.is_present(m.node)));
    Command::Depart { node: present.map_or(NodeId(1), |m| m.node) }
}

fn repair_this(b: &Blueprint, bucket: &Bucket, y: u16, z: u16) -> Command {
    let present: Vec<NodeId> = b.nodes.keys().copied().filter(|n| b.is_present(*n)).collect();
    let bound = bucket.bond.is_some_and(|bond| bond.partner().is_some());
    let remedy = match (z / 4 % if bound { 2 } else { 3 }, pick(present.iter().copied(), y)) {
        (0, Some(node)) => {
            let copy = |die: u16| Member { node, incarnation: Incarnation(u64::from(die % 9)) };
            let other = (bound != z.is_multiple_of(13)).then(|| copy(y / 9));
            Remedy::Copy { copy: copy(y), other }
        }
        _ => Remedy::Empty(present.into_iter().take(usize::from(b.keyspaces[&bucket.keyspace].replicas)).collect()),
    };
    Command::Repair { bucket: bucket.id, replaces: bucket.term(), by: "somebody: it is lost".into(), remedy }
}

/// Of two that were bound, neither goes on without the other.
fn assert_one_fate(before: &Blueprint, after: &Blueprint, command: &Command) {
    for bucket in before.buckets.values() {
        let Some(partner) = bucket.bond.and_then(|bond| bond.partner()) else { continue };
        let bound = after.buckets.get(&bucket.id).and_then(|k| k.bond?.partner()) == Some(partner);
        let ended = matches!(command, Command::Merge { .. } | Command::RemoveKeyspace { .. });
        let begun_anew = after.is_retired(bucket.id) && after.is_retired(partner);
        assert!(bound || ended || begun_anew, "{} goes on without {partner}: {command:?}", bucket.id);
    }
}

fn succeed(b: &Blueprint, x: u16, y: u16, z: u16) -> Command {
    let governed = b.buckets.values().filter(|k| k.government().is_some());
    let bucket = pick(governed, x).map_or(BucketId(u64::from(x % 20)), |k| k.id);
    let stranger = Member::new(u64::from(y % 7), u64::from(z % 9));
    let Some(g) = b.government(bucket) else {
        return Command::Succeed { bucket, replaces: Term(1), change: Change::Renew { primary: stranger } };
    };
    let fate = [Fate::Leaves, Fate::Stalled, Fate::Lost][usize::from(z) % 3];
    let secondary = pick(g.secondaries.iter().copied(), y).unwrap_or(stranger);
    let candidate = pick(g.candidates.iter().copied(), y).unwrap_or(stranger);
    let heir = pick(g.heirs.iter().copied(), y).unwrap_or(secondary);
    let change = match z / 3 % 15 {
        0..3 => Change::Enlist { node: NodeId(u64::from(y % 7) + 1) },
        3 => Change::Drop { candidate },
        4..6 => Change::Seat { candidate, by: if z.is_multiple_of(17) { stranger } else { g.primary } },
        6..8 => Change::Dismiss { secondary, fate },
        8 => Change::HandOver { to: secondary, by: g.primary },
        9 => Change::Usurp { to: if g.secondaries.is_empty() { heir } else { secondary }, fate },
        10 => Change::Renew { primary: if z.is_multiple_of(2) { g.primary } else { secondary } },
        11..14 => Change::Disown { heir },
        _ => Change::SetMinInSync { min: (y % 5) as u8 },
    };
    let replaces = if z.is_multiple_of(19) { Term(u64::from(y % 9)) } else { g.term };
    Command::Succeed { bucket, replaces, change }
}

fn dice(length: usize) -> impl Strategy<Value = Vec<Dice>> {
    prop::collection::vec(any::<Dice>(), 1..length)
}

/// All the blueprints of a history, from epoch 0 on.
fn history(dice: &[Dice]) -> Vec<Blueprint> {
    let mut b = Blueprint::new();
    for id in 1..=5 {
        b.apply(&add_node(id, &letter(id))).expect("there is nobody yet");
    }
    let mut all = alloc::vec![Blueprint::new(), b.clone()];
    for roll in dice {
        if b.apply(&command(&b, *roll)).is_ok() {
            all.push(b.clone());
        }
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn every_step_is_sound(dice in dice(150)) {
        let mut b = history(&[]).pop().unwrap();
        let mut twin = b.clone();
        for roll in dice {
            let command = command(&b, roll);
            let before = b.clone();
            let result = b.apply(&command);
            prop_assert_eq!(&result, &twin.apply(&command), "the same everywhere");
            b.check_invariants();
            prop_assert_eq!(b.unequal_bond(), None, "what is bound changes together: {:?}", command);
            assert_one_fate(&before, &b, &command);
            match result {
                Ok(applied) => {
                    prop_assert_eq!(applied.epoch, b.epoch);
                    let changed = Blueprint { epoch: before.epoch, ..b.clone() } != before;
                    let expected = if changed { before.epoch.next() } else { before.epoch };
                    prop_assert_eq!(b.epoch, expected, "{:?}", command);
                }
                Err(_) => prop_assert_eq!(&b, &before, "a refusal changes nothing"),
            }
            prop_assert!(before.next_bucket <= b.next_bucket);
            for id in (1..before.next_bucket.0).map(BucketId) {
                prop_assert!(!before.is_retired(id) || b.is_retired(id), "retired is for good");
            }
        }
        prop_assert_eq!(b, twin);
    }

    #[test]
    fn what_is_written_can_be_read(dice in dice(80)) {
        for b in history(&dice) {
            prop_assert_eq!(decode(&encode(&b)), Ok(b.clone()));
            let inside_something = postcard::to_allocvec(&(7u8, &b)).unwrap();
            prop_assert_eq!(postcard::from_bytes::<(u8, Blueprint)>(&inside_something), Ok((7, b)));
        }
    }

    #[test]
    fn a_delta_leads_from_one_to_the_other(dice in dice(80), x in any::<u16>(), y in any::<u16>()) {
        let all = history(&dice);
        let (mut i, mut j) = (usize::from(x) % all.len(), usize::from(y) % all.len());
        if i > j {
            core::mem::swap(&mut i, &mut j);
        }
        let (old, new) = (&all[i], &all[j]);
        let delta = Delta::between(old, new);
        let sent: Delta = postcard::from_bytes(&postcard::to_allocvec(&delta).unwrap()).unwrap();
        let mut b = old.clone();
        prop_assert_eq!(b.patch(&sent), Ok(new.epoch));
        prop_assert_eq!(&b, new);
        if old.epoch != new.epoch {
            prop_assert!(b.patch(&delta).is_err(), "it fits only once");
            prop_assert!(b.patch(&Delta::between(new, old)).is_err(), "and never leads back");
            let within = Delta { to: old.epoch, ..delta };
            let mut here = old.clone();
            let _ = here.patch(&within);
            prop_assert_eq!(&here, old, "one epoch is one blueprint");
        }
        prop_assert_eq!(&b, new, "a misfit changes nothing");
    }

    #[test]
    fn garbage_is_an_error(garbage in prop::collection::vec(any::<u8>(), 0..200)) {
        prop_assert_eq!(decode(&garbage), Err(FormatError::NotABlueprint));
        let mut bytes = encode(&Blueprint::new());
        bytes.truncate(10);
        bytes.extend(&garbage);
        if let Ok(b) = decode(&bytes) {
            b.check_invariants();
        }
    }

    /// A damaged one is refused or is sound, and being sound means that commands and deltas do not break it either.
    #[test]
    fn damage_is_found_or_harmless(
        dice in dice(60),
        hits in prop::collection::vec((any::<u16>(), any::<u8>()), 1..4),
        then in dice(20),
    ) {
        let good = history(&dice).pop().unwrap();
        let mut bytes = encode(&good);
        for (at, value) in hits {
            let at = usize::from(at) % bytes.len();
            bytes[at] = value;
        }
        if let Ok(mut b) = decode(&bytes) {
            b.check_invariants();
            for roll in then {
                let _ = b.apply(&command(&b, roll));
                b.check_invariants();
            }
            let _ = good.clone().patch(&Delta::between(&good, &b));
        }
        let cut = encode(&good);
        for length in 0..cut.len().min(64) {
            prop_assert!(decode(&cut[..length]).is_err());
        }
    }
}

/// The dice above are only worth something if they reach everything.
#[test]
fn histories_reach_every_corner() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;

    let mut runner = TestRunner::deterministic();
    let (mut commands, mut changes) = ([0u32; 27], [0u32; 9]);
    let (mut heirs, mut retired, mut refused) = (0, 0, 0);
    let mut bound_repairs = [0u32; 2];
    for _ in 0..900 {
        let mut b = history(&[]).pop().unwrap();
        for roll in dice(150).new_tree(&mut runner).unwrap().current() {
            let command = command(&b, roll);
            let before = b.epoch;
            let repairs_bound = repair_of_bound(&b, &command);
            match b.apply(&command) {
                Ok(applied) if applied.epoch > before => {
                    count(&command, &mut commands, &mut changes);
                    repairs_bound.into_iter().for_each(|remedy| bound_repairs[remedy] += 1);
                }
                Ok(_) => {}
                Err(_) => refused += 1,
            }
            heirs += u32::from(b.buckets.values().filter_map(Bucket::government).any(|g| !g.heirs.is_empty()));
            retired += u32::from(b.is_retired(BucketId(1)));
        }
    }
    assert!(commands.iter().chain(&changes).all(|n| *n >= 20), "{commands:?} {changes:?}");
    assert!(bound_repairs.iter().all(|n| *n >= 20), "{bound_repairs:?}");
    assert!(heirs > 200 && retired > 200 && refused > 200, "{heirs} {retired} {refused}");
}

/// 0: from copies; 1: empty.
fn repair_of_bound(b: &Blueprint, command: &Command) -> Option<usize> {
    let Command::Repair { bucket, remedy, .. } = command else { return None };
    b.buckets.get(bucket)?.bond?.partner()?;
    Some(usize::from(matches!(remedy, Remedy::Empty(_))))
}

fn count(command: &Command, commands: &mut [u32; 27], changes: &mut [u32; 9]) {
    let which = match command {
        Command::AddNode { .. } => 0,
        Command::Depart { .. } => 1,
        Command::Return { .. } => 2,
        Command::RemoveNode { .. } => 3,
        Command::CreateKeyspace { .. } => 4,
        Command::RemoveKeyspace { .. } => 5,
        Command::Erased { .. } => 6,
        Command::ReserveBucket { .. } => 7,
        Command::Register { .. } => 8,
        Command::Relieve { .. } => 10,
        Command::StartOperation { .. } => 11,
        Command::AdvanceOperation { .. } => 12,
        Command::PauseOperation { .. } => 13,
        Command::ResumeOperation { .. } => 14,
        Command::CancelOperation { .. } => 15,
        Command::PlanOperation { .. } => 16,
        Command::ApplyOperation { .. } => 17,
        Command::Bind { .. } => 20,
        Command::Merge { .. } => 21,
        Command::Mark { .. } => 18,
        Command::SetReplicas { .. } => 19,
        Command::ThrottleOperation { .. } => 22,
        Command::Begin { .. } => 23,
        Command::Repair { .. } => 24,
        Command::SetAutoRebalance { .. } => 25,
        Command::Rebalance { .. } => 26,
        Command::Succeed { change, .. } => {
            changes[match change {
                Change::Enlist { .. } => 0,
                Change::Drop { .. } => 1,
                Change::Seat { .. } => 2,
                Change::Dismiss { .. } => 3,
                Change::HandOver { .. } => 4,
                Change::Usurp { .. } => 5,
                Change::Renew { .. } => 6,
                Change::SetMinInSync { .. } => 7,
                Change::Disown { .. } => 8,
            }] += 1;
            9
        }
    };
    commands[which] += 1;
}

#[test]
fn versions_and_headers() {
    let mut bytes = encode(&Blueprint::new());
    assert_eq!(&bytes[..8], b"GODWITBP");
    bytes.push(0);
    assert_eq!(decode(&bytes), Err(FormatError::Trailing(1)));
    bytes[8] = 1;
    assert_eq!(decode(&bytes), Err(FormatError::UnknownVersion { found: 1 }));
    assert_eq!(decode(b"GODWIT"), Err(FormatError::NotABlueprint));
}
