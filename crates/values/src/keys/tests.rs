use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::item::LONGEST_WHOLE;

fn text(keys: &Keys, key: &[u8]) -> Bytes {
    keys.text(key).expect("a text").expect("it is there").to_bytes()
}

/// Whoever was answered with the old value has the old value.
#[test]
fn a_value_is_overwritten_only_where_nobody_sees_it() {
    let (mut keys, key) = (Keys::default(), b"k");
    let long = |byte| vec![byte; LONGEST_WHOLE + 1];
    for (one, two, six) in [(b"one".to_vec(), b"two".to_vec(), b"six".to_vec()), (long(1), long(2), long(6))] {
        keys.set_text(key, &one, Expiry::Never);
        let seen = text(&keys, key);
        keys.set_text(key, &two, Expiry::Never);
        assert_eq!((&seen[..], &text(&keys, key)[..]), (&one[..], &two[..]));
        let place = |keys: &Keys| keys.text(key).expect("a text").expect("it is there").as_ptr();
        let before = place(&keys);
        keys.set_text(key, &six, Expiry::Never);
        assert_eq!((place(&keys), &text(&keys, key)[..]), (before, &six[..]), "nobody saw it");
    }
    keys.set_text(key, b"ten", Expiry::At(7));
    keys.set_text(key, b"one", Expiry::Never);
    assert!(keys.get(key).is_some_and(|item| item.expires().is_none()) && !keys.some_expired(u64::MAX));
}

/// The weight of lists is a guess, and yet nothing is left of it when they are gone.
#[test]
fn what_goes_takes_its_weight_along() {
    let (mut keys, a, b) = (Keys::default(), b"a", b"b");
    keys.set(a, Value::List([Bytes::from(vec![0; 100])].into()), Expiry::Never);
    for length in [1, 1000, 3, 0, 70] {
        let pushed = keys.change_list(a, |items| items.push_back(Bytes::from(vec![0; length])));
        assert_eq!(pushed, Ok(Some(())));
    }
    keys.set_text(b, &[0; 50], Expiry::Never);
    assert!(keys.bytes() > 100, "{}", keys.bytes());
    assert_eq!(keys.change_list(a, VecDeque::clear), Ok(Some(())));
    assert_eq!(keys.bytes(), 1 + 50 + PER_KEY);
    keys.set(b, Value::Text(Bytes::new()), Expiry::At(9));
    assert!(keys.reap(9, b));
    assert_eq!(keys.bytes(), 0);
}

#[test]
fn long_keys_and_short_ones_are_in_the_same_order() {
    let mut keys = Keys::default();
    let names: Vec<Vec<u8>> = (0..90).map(|length| vec![b'x'; length]).collect();
    names.iter().for_each(|name| keys.set_text(name, name, Expiry::Never));
    assert!(names.iter().all(|name| text(&keys, name) == *name));
    let places: Vec<u32> = keys.iter_from(0).map(|(place, _)| place).collect();
    assert!(places.is_sorted() && places.len() == names.len());
    let encoded = postcard::to_allocvec(&keys).expect("it has an encoding");
    assert_eq!(postcard::from_bytes::<Keys>(&encoded), Ok(keys));
}

/// As many as one likes have the same place: for eight bytes, what `place_of` does can be undone.
fn key_at(place: u32, number: u32) -> [u8; 8] {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let double = |inverse: u64, _| inverse.wrapping_mul(2u64.wrapping_sub(FACTOR.wrapping_mul(inverse)));
    let inverse = (0..6).fold(FACTOR, double);
    let hash = (u64::from(place) << 32 | u64::from(number)).wrapping_mul(inverse);
    let word = (hash ^ (hash >> 32)).wrapping_mul(inverse);
    let key = (word ^ 8u64.wrapping_mul(FACTOR)).to_le_bytes();
    assert_eq!(place_of(&key), place);
    key
}

/// Cursors are made of them.
#[test]
fn places_are_pinned() {
    let places = [&b""[..], b"a", b"12345678", b"123456789", &[0xff; 100]].map(place_of);
    assert_eq!(places, [0, 2_839_783_452, 1_178_857_897, 1_620_482_693, 1_314_102_498]);
}

#[derive(Clone, Debug)]
enum Step {
    Set(usize, u8, Expiry),
    Push(u8),
    Pop,
    Write(usize, u8),
    Double,
    Expire(Option<u64>),
    Take,
    Reap(u64),
}

fn any_step() -> impl Strategy<Value = Step> {
    let length =
        || prop_oneof![0usize..9, LONGEST_WHOLE - 9..LONGEST_WHOLE + 9, Just(LONGEST_WHOLE), Just(LONGEST_WHOLE + 1)];
    let expiry = prop_oneof![Just(Expiry::Never), Just(Expiry::Kept), (1u64..5).prop_map(Expiry::At)];
    prop_oneof![
        4 => (length(), any::<u8>(), expiry).prop_map(|(length, byte, expiry)| Step::Set(length, byte, expiry)),
        1 => any::<u8>().prop_map(Step::Push),
        1 => Just(Step::Pop),
        1 => (length(), any::<u8>()).prop_map(|(offset, byte)| Step::Write(offset, byte)),
        1 => Just(Step::Double),
        2 => prop::option::of(1u64..5).prop_map(Step::Expire),
        1 => Just(Step::Take),
        1 => (0u64..5).prop_map(Step::Reap),
    ]
}

/// Values as they are, and nothing follows from anything.
type Model = BTreeMap<(u32, [u8; 8]), (Value, Option<u64>)>;

/// What they answered was the same.
fn step(keys: &mut Keys, model: &mut Model, name: (u32, [u8; 8]), step: Step) -> bool {
    let (key, held) = (&name.1, model.get_mut(&name));
    match (step, held) {
        (Step::Set(length, byte, expiry), held) => {
            keys.set_text(key, &vec![byte; length], expiry);
            let expires = expiry.after(held.and_then(|(_, expires)| *expires));
            model.insert(name, (Value::Text(vec![byte; length].into()), expires));
            true
        }
        (Step::Push(byte), None) => {
            let list = Value::List([Bytes::from(vec![byte])].into());
            keys.set(key, list.clone(), Expiry::Never);
            model.insert(name, (list, None));
            true
        }
        (Step::Push(byte), Some((Value::List(items), _))) => {
            items.push_back(Bytes::from(vec![byte]));
            keys.change_list(key, |items| items.push_back(Bytes::from(vec![byte]))) == Ok(Some(()))
        }
        (Step::Pop, Some((Value::List(items), _))) => {
            let (item, is_empty) = (items.pop_front(), items.is_empty());
            if is_empty {
                model.remove(&name);
            }
            keys.change_list(key, VecDeque::pop_front) == Ok(Some(item))
        }
        (Step::Pop, None) => keys.change_list(key, VecDeque::pop_front) == Ok(None),
        (Step::Push(_) | Step::Pop, Some((Value::Text(_), _))) => {
            keys.change_list(key, VecDeque::pop_front) == Err(errors::wrong_type())
        }
        (Step::Write(offset, byte), Some((Value::Text(text), _))) => {
            let mut changed = text.to_vec();
            changed.resize(changed.len().max(offset + 2), 0);
            changed[offset..offset + 2].fill(byte);
            *text = changed.into();
            keys.write_text(key, offset, &[byte; 2]) == Ok(text.len())
        }
        (Step::Write(offset, byte), None) => {
            let text = [vec![0; offset], vec![byte; 2]].concat();
            model.insert(name, (Value::Text(text.into()), None));
            keys.write_text(key, offset, &[byte; 2]) == Ok(offset + 2)
        }
        (Step::Double, Some((Value::Text(text), _))) => {
            *text = [&text[..], &text[..]].concat().into();
            keys.change_text(key, |old| Ok([old, old].concat())).is_ok_and(|new| new.is_some_and(|new| new == *text))
        }
        (Step::Double, None) => keys.change_text(key, |_| Ok([])) == Ok(None),
        (Step::Write(..) | Step::Double, Some((Value::List(_), _))) => {
            keys.write_text(key, 0, &[]) == Err(errors::wrong_type())
                && keys.change_text(key, |_| Ok([])) == Err(errors::wrong_type())
        }
        (Step::Expire(at), held) => {
            keys.set_expiry(key, at);
            held.into_iter().for_each(|(_, expires)| *expires = at);
            true
        }
        (Step::Take, _) => {
            let taken = keys.take(key).map(|item| (item.as_ref().expires(), item.into_value()));
            taken == model.remove(&name).map(|(value, expires)| (expires, value))
        }
        (Step::Reap(clock), held) => {
            let is_due = held.is_some_and(|(_, expires)| expires.is_some_and(|expires| expires <= clock));
            if is_due {
                model.remove(&name);
            }
            keys.reap(clock, key) == is_due
        }
    }
}

proptest! {
    /// Keys share their places here, and expire at the same times: what each of them says is its own.
    #[test]
    fn keys_are_like_the_model(steps in prop::collection::vec((0u32..4, 0u32..40, any_step()), 0..200)) {
        let (mut keys, mut model) = (Keys::default(), Model::new());
        for (place, number, what) in steps {
            let name = (place, key_at(place, number));
            prop_assert!(step(&mut keys, &mut model, name, what));
            let item = keys.get(&name.1).map(|item| (item.seen().to_value(), item.expires()));
            prop_assert_eq!(item.as_ref(), model.get(&name));
            for clock in 0..5 {
                let mut due: Vec<_> = keys.expired(clock).collect();
                let times: Vec<_> = due.iter().map(|key| keys.get(key).and_then(ItemRef::expires)).collect();
                prop_assert!(times.is_sorted());
                due.sort_unstable();
                let is_due = |expires: &Option<u64>| expires.is_some_and(|expires| expires <= clock);
                let mut expected: Vec<_> = model.iter().filter(|(_, (_, at))| is_due(at)).map(|((_, key), _)| &key[..]).collect();
                expected.sort_unstable();
                prop_assert_eq!(keys.some_expired(clock), !expected.is_empty());
                prop_assert_eq!(due, expected);
            }
        }
        let all = keys.iter().map(|item| (item.key(), item.seen().to_value(), item.expires()));
        prop_assert!(all.eq(model.iter().map(|((_, key), (value, expires))| (&key[..], value.clone(), *expires))));
        let encoded = postcard::to_allocvec(&keys).expect("it has an encoding");
        let mut again = postcard::from_bytes::<Keys>(&encoded).expect("it was encoded here");
        prop_assert_eq!(&again, &keys);
        for (_, key) in model.keys() {
            prop_assert!(again.remove(key));
        }
        prop_assert_eq!(again, Keys::default());
    }
}
