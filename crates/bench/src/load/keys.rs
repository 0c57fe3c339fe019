//! Which key is next, and at which node it belongs.

use std::net::SocketAddr;

use values::slot_of;

use super::route::Routes;

/// Of the number in a key, as redis-benchmark writes it.
pub(crate) const DIGITS: usize = 12;

pub(crate) fn write_digits(mut number: u32, out: &mut [u8]) {
    for digit in out.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
}

pub(crate) fn key_name(prefix: &str, number: u32) -> String {
    format!("{prefix}{number:0DIGITS$}")
}

/// Which keys, and in which order.
#[derive(Clone, Debug)]
pub enum Keys {
    /// Any of the first so many, again and again.
    Random(u32),
    /// Each of these numbers once.
    Once(Vec<u32>),
}

impl Keys {
    pub fn first(count: u32) -> Self {
        Keys::Once((0..count).collect())
    }
}

/// The keys that one node is asked for.
#[derive(Debug)]
pub(crate) struct Share {
    numbers: Numbers,
    next: usize,
}

#[derive(Debug)]
enum Numbers {
    All(u32),
    These(Vec<u32>),
}

/// A few lines of xorshift: which keys come must not cost more than to send them.
#[derive(Debug)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn roll(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        ((self.roll() >> 32).wrapping_mul(bound as u64) >> 32) as usize
    }
}

impl Share {
    /// One for each node. Without routes, any node takes any key: keys to be sent once are dealt out.
    pub(crate) fn deal(keys: &Keys, prefix: &str, nodes: &[SocketAddr], routes: Option<&Routes>) -> Vec<Self> {
        let these = |numbers| Share { numbers: Numbers::These(numbers), next: 0 };
        let Some(routes) = routes else {
            return match keys {
                Keys::Random(count) => nodes.iter().map(|_| Share { numbers: Numbers::All(*count), next: 0 }).collect(),
                Keys::Once(numbers) => {
                    let part = numbers.len().div_ceil(nodes.len()).max(1);
                    let mut dealt: Vec<Self> = numbers.chunks(part).map(|chunk| these(chunk.to_vec())).collect();
                    dealt.resize_with(nodes.len(), || these(Vec::new()));
                    dealt
                }
            };
        };
        let mut shares: Vec<Vec<u32>> = nodes.iter().map(|_| Vec::new()).collect();
        let mut deal = |number: u32| {
            let node = routes.node_of(slot_of(key_name(prefix, number).as_bytes()));
            let place = node.and_then(|node| nodes.iter().position(|known| *known == node));
            if let Some(place) = place {
                shares[place].push(number);
            }
        };
        match keys {
            Keys::Random(count) => (0..*count).for_each(&mut deal),
            Keys::Once(numbers) => numbers.iter().copied().for_each(&mut deal),
        }
        shares.into_iter().map(these).collect()
    }

    pub(crate) fn is_empty(&self) -> bool {
        match &self.numbers {
            Numbers::All(count) => *count == 0,
            Numbers::These(numbers) => numbers.is_empty(),
        }
    }

    /// How many have not been sent yet, of those that are sent once.
    pub(crate) fn left(&self) -> usize {
        match &self.numbers {
            Numbers::All(count) => *count as usize,
            Numbers::These(numbers) => numbers.len() - self.next,
        }
    }

    pub(crate) fn any(&self, dice: &mut Dice) -> u32 {
        match &self.numbers {
            Numbers::All(count) => dice.below(*count as usize) as u32,
            Numbers::These(numbers) => numbers[dice.below(numbers.len())],
        }
    }

    /// The next that was not sent yet: there must be one left.
    pub(crate) fn next(&mut self) -> u32 {
        match &self.numbers {
            Numbers::All(count) => {
                self.next = (self.next + 1) % *count as usize;
                self.next as u32
            }
            Numbers::These(numbers) => {
                self.next += 1;
                numbers[self.next - 1]
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(port: u16) -> SocketAddr {
        ([127, 0, 0, 1], port).into()
    }

    #[test]
    fn each_once_whoever_is_asked() {
        let mut shares = Share::deal(&Keys::first(10), "key:", &[node(1), node(2), node(3)], None);
        let mut all = Vec::new();
        for share in &mut shares {
            while share.left() > 0 {
                all.push(share.next());
            }
        }
        assert_eq!(all, (0..10).collect::<Vec<u32>>());
    }

    #[test]
    fn a_node_is_asked_for_its_own_keys() {
        let mut routes = Routes::default();
        (0..8192).for_each(|slot| routes.put(slot, node(1)));
        (8192..16384).for_each(|slot| routes.put(slot, node(2)));
        let shares = Share::deal(&Keys::Random(1000), "key:", &[node(1), node(2)], Some(&routes));
        assert_eq!(shares.iter().map(Share::left).sum::<usize>(), 1000);
        let mut dice = Dice::new(1);
        for _ in 0..100 {
            let slot = slot_of(key_name("key:", shares[1].any(&mut dice)).as_bytes());
            assert!(slot.0 >= 8192);
        }
    }

    #[test]
    fn dice_are_fair_enough() {
        let (mut dice, mut counts) = (Dice::new(7), [0; 10]);
        (0..10_000).for_each(|_| counts[dice.below(10)] += 1);
        assert!(counts.iter().all(|count| (850..1150).contains(count)), "{counts:?}");
    }
}
