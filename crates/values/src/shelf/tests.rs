use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

/// Every other one expires: their heads differ.
fn item(key: &[u8], number: u16) -> Loose {
    Loose::of_text(key, number.is_multiple_of(2).then_some(u64::from(number)), &number.to_le_bytes())
}

/// What the code relies on, whatever happened.
fn is_sound(shelf: &Shelf) -> bool {
    let leaves = shelf.leaves();
    let in_step = |leaf: &Leaf| leaf.marks.len() == leaf.items.len() && leaf.marks.capacity() == leaf.items.capacity();
    let same_order = leaves.iter().all(|leaf| in_step(leaf) && leaf.items.len() <= FULL);
    let many = match shelf {
        Shelf::One(_) => true,
        Shelf::Many(many) => {
            let firsts = many.leaves.iter().map(|leaf| leaf.marks.place(0));
            let count: usize = many.leaves.iter().map(|leaf| leaf.items.len()).sum();
            many.leaves.len() > 1 && many.count == count && firsts.eq(many.firsts.iter().copied().map(Some))
        }
    };
    let names = shelf.iter().map(|(place, item)| Name { place, key: item.key() });
    same_order && many && names.is_sorted_by(|a, b| a < b)
}

/// What it takes besides what the items take.
fn memory(shelf: &Shelf) -> usize {
    let leaves = shelf.leaves().iter();
    let rows: usize = leaves.map(|leaf| 5 * leaf.marks.capacity() + 16 * leaf.items.capacity()).sum();
    let many = match shelf {
        Shelf::One(_) => 0,
        Shelf::Many(many) => {
            size_of::<Many>() + 4 * many.firsts.capacity() + size_of::<Leaf>() * many.leaves.capacity()
        }
    };
    rows + many
}

proptest! {
    /// It is a map in the order of its names, whether there are few or many: places are few here, so that keys share them, and leaves
    /// begin and end with the same place.
    #[test]
    fn it_is_a_map(steps in prop::collection::vec((0u32..8, 0u8..200, 0u8..16), 1..1500)) {
        let (mut shelf, mut map) = (Shelf::default(), BTreeMap::new());
        for (number, (place, key, what)) in steps.into_iter().enumerate() {
            let key = [key, key / 3];
            let name = Name { place, key: &key };
            let item = item(&key, number as u16);
            match (what, shelf.find(name)) {
                (0..11, Ok(spot)) => {
                    let there = shelf.item_mut(spot);
                    (*there.head, *there.item) = (item.head, item.item.clone());
                    map.insert((place, key), item);
                }
                (0..11, Err(spot)) => {
                    shelf.insert(spot, place, item.clone());
                    prop_assert_eq!(map.insert((place, key), item), None);
                }
                // Sometimes many of them go: one here and one there, or all but a few.
                (11, _) if place < 2 && key[0] < 30 => {
                    let stay = |at: usize| if place == 0 { at < 5 } else { at.is_multiple_of(7) };
                    let gone = map.keys().enumerate().filter(|(at, _)| !stay(*at)).map(|(_, name)| *name);
                    for (place, key) in gone.collect::<Vec<_>>() {
                        let spot = shelf.find(Name { place, key: &key }).expect("it is there");
                        prop_assert_eq!(Some(shelf.remove(spot)), map.remove(&(place, key)));
                        prop_assert!(is_sound(&shelf));
                    }
                }
                (11 | 12, Ok(spot)) => prop_assert_eq!(Some(shelf.remove(spot)), map.remove(&(place, key))),
                (11 | 12, Err(_)) => prop_assert_eq!(map.get(&(place, key)), None),
                (13, _) => prop_assert_eq!(shelf.get(name), map.get(&(place, key)).map(Loose::as_ref)),
                _ => {
                    let expected = map.iter().filter(|((at, _), _)| *at >= place);
                    let expected = expected.map(|((at, _), item)| (*at, item.as_ref()));
                    prop_assert!(shelf.iter_from(place).eq(expected));
                }
            }
            prop_assert_eq!(shelf.len(), map.len());
            prop_assert!(is_sound(&shelf), "{:?}", shelf);
        }
        let mut pushed = Shelf::default();
        for (at, ((place, _), item)) in map.iter().enumerate() {
            pushed.push(*place, item.clone(), map.len() - at - 1);
        }
        prop_assert!(is_sound(&pushed));
        prop_assert_eq!(&shelf, &pushed);
        prop_assert!(shelf.iter().eq(map.iter().map(|((place, _), item)| (*place, item.as_ref()))));
    }
}

/// A key of 16 bytes with a value of 64 takes little more than that, however many of them a slot has.
#[test]
fn what_a_key_takes() {
    let key = |number: usize| format!("key:{number:012}");
    let one = |number: usize| Loose::of_text(key(number).as_bytes(), None, &[b'v'; 64]);
    let Item::Whole(bytes) = one(0).item else { panic!("it is short") };
    assert_eq!(bytes.len(), 16 + 64);
    for count in [61, 200, 10_000] {
        let (mut grown, mut pushed) = (Shelf::default(), Shelf::default());
        for number in 0..count {
            let name = key(number);
            let name = Name::of(name.as_bytes());
            let spot = grown.find(name).expect_err("it is new");
            grown.insert(spot, name.place, one(number));
        }
        for (at, (place, item)) in grown.iter().enumerate() {
            pushed.push(place, Loose { head: item.head, item: item.item.clone() }, count - at - 1);
        }
        for shelf in [grown, pushed] {
            let each = bytes.len() as f64 + memory(&shelf) as f64 / count as f64;
            assert!(each <= 105.0, "{each} bytes for each of {count}");
        }
    }
}
