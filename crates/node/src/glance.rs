//! What is asked of all replicas at once, and often: who leads this slot, and who wants to be woken first. Kept, so that neither a
//! request nor the end of a batch has to look at each of them. And what must be noticed when it changes: whom a replica follows.

use std::collections::BTreeMap;

use blueprint::{Blueprint, BucketId, Conduct, Instant, KeyspaceId, Member, Slot, SlotMap};
use phaser::Phaser;

use crate::replica::Replica;

/// What of a phaser's state these depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Glance {
    /// How many slots it has, if it leads, and how often it got more. Otherwise they only become fewer, so as many are the same.
    pub(crate) leads: Option<(u32, u64)>,
    pub(crate) deadline: Option<Instant>,
    /// Who leads, as far as it knows.
    pub(crate) primary: Option<Member>,
}

impl Glance {
    pub(crate) fn at<C: Conduct>(phaser: &Phaser<C>) -> Self {
        // What another bucket has taken over is led there.
        let leads = phaser.leads().filter(|_| !phaser.is_given());
        let leads = leads.map(|_| (phaser.owned().len(), phaser.absorptions()));
        let primary = phaser.government().map(|government| government.primary);
        Self { leads, deadline: phaser.deadline(), primary }
    }
}

/// The buckets that are led here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Leads {
    /// Something changed since it was last looked at.
    #[default]
    Unknown,
    /// By keyspace, in their order: there are few, and each has a table of its own.
    Known(Vec<(KeyspaceId, Led)>),
    /// One of them is not registered yet: whose it is follows from the logs, which are looked at each time.
    Unsettled,
}

impl Leads {
    pub(crate) fn of<'a, C: Conduct>(
        replicas: impl DoubleEndedIterator<Item = (&'a BucketId, &'a Replica<C>)>,
        blueprint: &Blueprint,
    ) -> Self {
        let mut maps: BTreeMap<KeyspaceId, SlotMap<BucketId>> = BTreeMap::new();
        // From behind: if two claim a slot, it is the first's.
        for (bucket, replica) in replicas.rev().filter(|(_, replica)| replica.glance.leads.is_some()) {
            match blueprint.buckets.get(bucket) {
                Some(registered) => {
                    maps.entry(registered.keyspace).or_default().set(replica.phaser.owned(), *bucket);
                }
                None => return Self::Unsettled,
            }
        }
        Self::Known(maps.into_iter().map(|(keyspace, map)| (keyspace, Led::of(&map))).collect())
    }

    /// None: that must be found out otherwise.
    pub(crate) fn get(&self, keyspace: KeyspaceId, slot: Slot) -> Option<Option<BucketId>> {
        match self {
            Self::Known(maps) => {
                let led = maps.iter().find(|(known, _)| *known == keyspace);
                Some(led.and_then(|(_, led)| led.get(slot)))
            }
            Self::Unknown | Self::Unsettled => None,
        }
    }
}

/// The bucket of each slot that is led here: every command looks several times, so it is one look at memory and no search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Led {
    buckets: Vec<BucketId>,
    /// For each slot its bucket's place among them, from 1; 0: it is not led here.
    places: Box<[u16]>,
}

impl Led {
    fn of(map: &SlotMap<BucketId>) -> Self {
        let mut led = Self { buckets: Vec::new(), places: vec![0; usize::from(Slot::COUNT)].into() };
        for (first, last, bucket) in map.runs() {
            led.buckets.push(*bucket); // once for each of its runs
            led.places[usize::from(first.0)..=usize::from(last.0)].fill(led.buckets.len() as u16);
        }
        led
    }

    #[inline]
    fn get(&self, slot: Slot) -> Option<BucketId> {
        let place = *self.places.get(usize::from(slot.0))?;
        self.buckets.get(usize::from(place.checked_sub(1)?)).copied()
    }
}
