//! Sets and maps of slots against the dumbest model there is.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::vec::Vec;

use proptest::prelude::*;

use super::*;

/// Crowded at the front, so that ranges touch, overlap and swallow each other; and sometimes at the very end.
fn some_range() -> impl Strategy<Value = (u16, u16)> {
    (prop_oneof![4 => 0u16..48, 1 => 16376u16..16384], 0u16..9).prop_map(|(f, n)| (f, (f + n).min(Slot::COUNT - 1)))
}

fn some_slots() -> impl Strategy<Value = BTreeSet<u16>> {
    prop::collection::vec(some_range(), 0..8).prop_map(|v| v.into_iter().flat_map(|(f, l)| f..=l).collect())
}

fn set_of(model: &BTreeSet<u16>) -> SlotSet {
    model.iter().copied().map(Slot).collect()
}

fn model_of(set: &SlotSet) -> BTreeSet<u16> {
    set.iter().map(|s| s.0).collect()
}

fn check_set(set: &SlotSet, model: &BTreeSet<u16>) {
    assert_eq!(model_of(set), *model);
    assert_eq!(set.len() as usize, model.len());
    assert_eq!(set.is_empty(), model.is_empty());
    assert_eq!(set.first().map(|s| s.0), model.first().copied());
    assert!(set.ranges.windows(2).all(|w| w[0].1 + 1 < w[1].0), "{set} is not canonical");
    let bytes = postcard::to_allocvec(set).unwrap();
    assert_eq!(postcard::from_bytes::<SlotSet>(&bytes).unwrap(), *set);
}

fn check_map(map: &SlotMap<u8>, model: &BTreeMap<u16, u8>) {
    let keys = map.keys();
    assert!(map.has_just(&keys), "its own keys");
    let others = [set_of(&BTreeSet::from([3])), set_of(&BTreeSet::from([0, 16383]))];
    for other in others.iter().flat_map(|other| [keys.union(other), keys.difference(other)]) {
        assert_eq!(map.has_just(&other), keys == other);
    }
    let flat: BTreeMap<u16, u8> = map.runs().flat_map(|(f, l, v)| (f.0..=l.0).map(move |s| (s, *v))).collect();
    assert_eq!(flat, *model);
    assert_eq!(model_of(&map.keys()), model.keys().copied().collect());
    assert_eq!(map.is_empty(), model.is_empty());
    for s in (0..64).chain(16370..16384) {
        assert_eq!(map.get(Slot(s)), model.get(&s));
    }
    let bytes = postcard::to_allocvec(map).unwrap();
    assert_eq!(postcard::from_bytes::<SlotMap<u8>>(&bytes).unwrap(), *map, "canonical, or it would be refused");
}

proptest! {
    #[test]
    fn sets_are_sets(a in some_slots(), b in some_slots(), probe in 0u16..Slot::COUNT) {
        let (x, y) = (set_of(&a), set_of(&b));
        check_set(&x, &a);
        check_set(&x.union(&y), &(&a | &b));
        check_set(&x.intersection(&y), &(&a & &b));
        check_set(&x.difference(&y), &(&a - &b));
        prop_assert_eq!(x.is_subset(&y), a.is_subset(&b));
        prop_assert!(x.intersection(&y).is_subset(&y));
        prop_assert_eq!(x.is_disjoint(&y), a.is_disjoint(&b));
        for slot in [probe, probe % 64] {
            prop_assert_eq!(x.contains(Slot(slot)), a.contains(&slot));
        }
        let (lower, upper) = x.split_half();
        prop_assert_eq!(lower.len(), x.len().div_ceil(2));
        check_set(&lower, &a.iter().copied().take(lower.len() as usize).collect());
        check_set(&upper, &a.iter().copied().skip(lower.len() as usize).collect());
    }

    #[test]
    fn inserting_in_any_order(slots in prop::collection::vec(prop_oneof![0u16..24, 16380u16..16384], 0..40)) {
        let (mut set, mut model) = (SlotSet::new(), BTreeSet::new());
        for slot in slots {
            set.insert(Slot(slot));
            model.insert(slot);
            check_set(&set, &model);
        }
    }

    #[test]
    fn maps_are_maps(steps in prop::collection::vec((some_slots(), prop::option::weighted(0.8, 0u8..3)), 1..12), only in some_slots()) {
        let (mut map, mut model) = (SlotMap::new(), BTreeMap::new());
        for (slots, value) in steps {
            match value {
                Some(v) => {
                    map.set(&set_of(&slots), v);
                    model.extend(slots.iter().map(|s| (*s, v)));
                }
                None => {
                    map.remove(&set_of(&slots));
                    model.retain(|s, _| !slots.contains(s));
                }
            }
            check_map(&map, &model);
        }
        model.retain(|s, _| only.contains(s));
        check_map(&map.restrict(&set_of(&only)), &model);
    }

    /// Whatever arrives either is canonical, and then is written back as it came, or is refused.
    #[test]
    fn what_arrives_is_canonical_or_refused(ranges in prop::collection::vec((0u16..20, 0u16..20), 0..4), end in 0u16..=u16::MAX) {
        let mut ranges = ranges;
        ranges.push((0, end));
        ranges.rotate_right(1);
        for list in [ranges.clone(), ranges[1..].to_vec()] {
            let bytes = postcard::to_allocvec(&list).unwrap();
            if let Ok(set) = postcard::from_bytes::<SlotSet>(&bytes) {
                prop_assert_eq!(set_of(&model_of(&set)).ranges, list);
            }
        }
    }
}

#[test]
fn malformed_sets_are_refused() {
    let cases: [&[(u16, u16)]; 5] = [&[(3, 2)], &[(0, 16384)], &[(0, 5), (6, 9)], &[(0, 5), (4, 9)], &[(9, 9), (1, 1)]];
    for ranges in cases {
        let bytes = postcard::to_allocvec(&Vec::from(ranges)).unwrap();
        assert!(postcard::from_bytes::<SlotSet>(&bytes).is_err(), "{ranges:?}");
    }
    assert!(postcard::from_bytes::<Slot>(&postcard::to_allocvec(&16384u16).unwrap()).is_err());
    let equal_neighbours = postcard::to_allocvec(&[(0u16, 1u16, 7u8), (2, 3, 7)].to_vec()).unwrap();
    assert!(postcard::from_bytes::<SlotMap<u8>>(&equal_neighbours).is_err());
}

#[test]
fn how_sets_look() {
    let set: SlotSet = SlotSet::range(Slot(0), Slot(99)).union(&SlotSet::single(Slot(105)));
    assert_eq!(format!("{set} {set:?} {} {}", SlotSet::all(), SlotSet::empty()), "0-99,105 0-99,105 0-16383 none");
    let mut map = SlotMap::new();
    map.set(&set, 'a');
    assert_eq!(format!("{map:?}"), "{0-99: 'a', 105: 'a'}");
}

#[test]
fn the_empty_set_allocates_nothing() {
    assert_eq!(SlotSet::new().ranges.capacity(), 0);
    assert_eq!(SlotSet::range(Slot(2), Slot(1)).ranges.capacity(), 0);
    assert_eq!(SlotSet::all().difference(&SlotSet::all()).ranges.capacity(), 0);
}
