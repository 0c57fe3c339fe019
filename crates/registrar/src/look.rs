//! What can be asked: who is where, who says so, how old that is, and whether its owner can be reached now.

use core::time::Duration;

use blueprint::{Conduct, Instant, NodeId};
use bytes::Bytes;

use crate::holding::{Held, State};
use crate::number::UpdateNumber;
use crate::part::Key;
use crate::peer::Reach;
use crate::registrar::Registrar;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    pub owner: NodeId,
    pub key: Bytes,
    pub value: Bytes,
    pub number: UpdateNumber,
    /// Since the owner last said so.
    pub age: Duration,
    pub left: Duration,
    /// No silent ghosts: whether the owner answers now.
    pub is_reachable: bool,
}

impl<C: Conduct> Registrar<C> {
    /// Whoever has a row of that name: usually one owner, more while a name moves.
    pub fn lookup(&self, now: Instant, key: &[u8]) -> impl Iterator<Item = Found> {
        let key = Key::Name(Bytes::copy_from_slice(key));
        self.holdings.iter().filter_map(move |(owner, holding)| self.found(now, *owner, &key, holding.get(&key)?))
    }

    /// One row of one owner.
    pub fn row(&self, now: Instant, owner: NodeId, key: &[u8]) -> Option<Found> {
        let key = Key::Name(Bytes::copy_from_slice(key));
        self.found(now, owner, &key, self.holdings.get(&owner)?.get(&key)?)
    }

    pub fn rows(&self, now: Instant, owner: NodeId) -> impl Iterator<Item = Found> {
        let holding = self.holdings.get(&owner);
        holding.into_iter().flat_map(|h| h.rows()).filter_map(move |(key, held)| self.found(now, owner, key, held))
    }

    /// Every owner of whom anything is held.
    pub fn owners(&self) -> impl Iterator<Item = NodeId> {
        self.holdings.keys().copied()
    }

    /// Up to where all of this owner's updates are here.
    pub fn known(&self, owner: NodeId) -> Option<UpdateNumber> {
        self.holdings.get(&owner).map(|holding| holding.known)
    }

    /// What this peer, when it was last heard of, had of that owner; nothing while it is away.
    pub fn claim(&self, peer: NodeId, owner: NodeId) -> Option<UpdateNumber> {
        self.peers.get(&peer)?.claims.get(&owner).copied()
    }

    pub fn is_reachable(&self, node: NodeId) -> bool {
        node == self.life.node || self.peers.get(&node).is_some_and(|peer| !peer.is_away())
    }

    /// It has started, has said up to where its own updates go, and all of them are here. (More than it claims, from before it last
    /// reset its counter, is not: its clock went back, and what is here is of an earlier life.)
    pub fn is_level(&self, node: NodeId) -> bool {
        let live = self.peers.get(&node).is_some_and(|peer| matches!(peer.reach, Reach::Live(_)));
        let covers = |claim: UpdateNumber| self.known(node).is_some_and(|k| k >= claim && k.is_of_reset(claim));
        live && self.claim(node, node).is_some_and(covers)
    }

    /// The peers, and whether each can be reached.
    pub fn peers(&self) -> impl Iterator<Item = (NodeId, bool)> {
        self.peers.iter().map(|(node, peer)| (*node, !peer.is_away()))
    }

    fn found(&self, now: Instant, owner: NodeId, key: &Key, held: &Held) -> Option<Found> {
        let (Key::Name(name), State::Value { bytes, expires }) = (key, &held.state) else { return None };
        if *expires <= now {
            return None;
        }
        Some(Found {
            owner,
            key: name.clone(),
            value: bytes.clone(),
            number: held.number,
            age: held.age(&self.config, now),
            left: expires.since(now),
            is_reachable: self.is_reachable(owner),
        })
    }
}
