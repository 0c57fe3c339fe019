//! Compare: the check of every round, when there is nothing to say. Two nodes that stand at the same place have the same claims, so a
//! digest of them is enough: what a round costs grows with the number of pairs, not with pairs times owners. Where the digests
//! differ, or anything else is not as usual, a check follows in which both say everything.
//!
//! Two different standings with the same digest (64 bits) would be taken for equal until one of them moves.

use blueprint::{Conduct, Instant, NodeId};

use crate::io::{Dropped, Outbox};
use crate::message::{Message, Phase, Standing};
use crate::registrar::Registrar;

impl<C: Conduct> Registrar<C> {
    /// The check of a round, as short as possible.
    pub(crate) fn compare(&mut self, now: Instant, node: NodeId, out: &mut Outbox) {
        let digest = self.digest_for(node);
        self.ask(now, node, digest, out);
    }

    /// None when it has to say everything: somebody starts, was away, or misses something.
    fn digest_for(&mut self, node: NodeId) -> Option<u64> {
        self.live_mut(node)?;
        let standing = self.standing(node);
        (standing.phase == Phase::Operating && standing.refused.is_none()).then(|| digest(&standing))
    }

    pub(crate) fn on_compare(&mut self, now: Instant, from: NodeId, nonce: u64, digest: u64, out: &mut Outbox) {
        if !self.is_heard(now, from, nonce) {
            return self.drop_message(from, Dropped::Outdated, out);
        }
        if self.digest_for(from) == Some(digest) {
            let standing = self.standing(from);
            self.on_standing(now, from, standing, out);
            self.send(from, Message::Same { nonce }, out);
        } else {
            self.ask_for_everything(now, from, out);
        }
    }

    pub(crate) fn on_same(&mut self, now: Instant, from: NodeId, nonce: u64, out: &mut Outbox) {
        let (digest, check_at) = (self.digest_for(from), self.next_check(now, from));
        let Some(peer) = self.peers.get_mut(&from) else { return };
        let Some(asked) = peer.asked.take_if(|asked| asked.nonce == nonce && asked.compared.is_some()) else {
            return self.drop_message(from, Dropped::NotAsked, out);
        };
        if asked.compared == digest {
            let standing = self.standing(from);
            self.on_standing(now, from, standing, out);
        } else {
            // This node has moved on since it asked. What the other one has is what this one had then: nothing to learn from.
            peer.is_tried = true;
            peer.check_at = check_at;
        }
        if asked.is_outdated {
            self.ask(now, from, None, out);
        }
    }
}

/// Claims are in the order of their owners.
fn digest(standing: &Standing) -> u64 {
    let mix = |hash: u64, word: u64| {
        let mixed = (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9).rotate_left(31)
    };
    standing.claims.iter().fold(0, |hash, claim| {
        let words = [claim.owner.0, u64::from(claim.known.seconds), claim.known.count];
        words.into_iter().fold(hash, mix)
    })
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;
    use crate::message::Claim;
    use crate::number::UpdateNumber;

    #[test]
    fn whatever_differs_shows() {
        let claim = |owner, seconds, count| Claim { owner: NodeId(owner), known: UpdateNumber::new(seconds, count) };
        let standings = [
            vec![],
            vec![claim(1, 100, 1)],
            vec![claim(2, 100, 1)],
            vec![claim(1, 101, 1)],
            vec![claim(1, 100, 2)],
            vec![claim(1, 100, 1), claim(2, 100, 1)],
            vec![claim(1, 100, 1), claim(2, 100, 2)],
            vec![claim(1, 100, 2), claim(2, 100, 1)],
        ];
        let digests: alloc::collections::BTreeSet<u64> = standings
            .iter()
            .map(|claims| digest(&Standing { phase: Phase::Operating, claims: claims.clone(), refused: None }))
            .collect();
        assert_eq!(digests.len(), standings.len());
    }
}
