//! What travels between two nodes: a greeting, then frames.
//!
//! A link carries frames in one direction, from who dialled to who answered, so that nobody has to agree on who dials. Before
//! the first frame both say who they are; whoever does not belong here is told why and gets no further. TLS will wrap the
//! stream; nothing here knows.
//!
//! ```text
//! greeting   "GODWIT1\n"  u32 length  Hello (postcard)      →
//!                         u32 length  Welcome (postcard)    ←
//! frame      u32 length   Frame (postcard)                  →
//! ```

use blueprint::{BucketId, Incarnation, Member, NodeId};
use bytes::{Buf, Bytes, BytesMut};
use node::PeerMessage;
use phaser::Envelope;
use serde::{Deserialize, Serialize};

/// Raised whenever nodes of the version before would misunderstand us.
pub const PROTOCOL: u32 = 8;

pub(crate) const MAGIC: &[u8; 8] = b"GODWIT1\n";

/// Who has not proved to be one of us may make us keep no more than this.
pub(crate) const LONGEST_GREETING: usize = 4096;

/// One value of 512 MB, in the table of its slot, and what stands around it.
pub(crate) const LONGEST_FRAME: usize = 768 << 20;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Hello {
    pub(crate) protocol: u32,
    /// 0: does not belong to one yet, and may only ask to join.
    pub(crate) cluster: u128,
    pub(crate) from: NodeId,
    /// Whom it believes to have dialled; none: whoever answers there.
    pub(crate) to: Option<NodeId>,
    pub(crate) end: End,
}

/// The part of the other node that dialled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum End {
    Desk,
    Lane(u16),
    /// What is large, so that it delays nothing else.
    Bulk(u16),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Welcome {
    Come { node: NodeId, cluster: u128 },
    Stay { why: String },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Frame {
    Message(PeerMessage),
    /// The same of a bucket, which is nearly all that lanes say. Both nodes were named in the greeting.
    Bucket {
        bucket: BucketId,
        from: Incarnation,
        to: Incarnation,
        message: phaser::Message,
    },
    /// Of the meta group. The answer comes over the link of the other direction.
    Call {
        id: u64,
        body: Bytes,
    },
    CallAnswer {
        id: u64,
        body: Bytes,
    },
}

impl From<PeerMessage> for Frame {
    fn from(message: PeerMessage) -> Self {
        match message {
            PeerMessage::Bucket { bucket, envelope: Envelope { from, to, message } } => {
                Self::Bucket { bucket, from: from.incarnation, to: to.incarnation, message }
            }
            message => Self::Message(message),
        }
    }
}

impl Frame {
    /// What that node says to this one; none of it is for the meta group.
    pub(crate) fn message(self, from: NodeId, me: NodeId) -> Option<PeerMessage> {
        match self {
            Self::Message(message) => Some(message),
            Self::Bucket { bucket, from: of_from, to: of_me, message } => {
                let from = Member { node: from, incarnation: of_from };
                let to = Member { node: me, incarnation: of_me };
                Some(PeerMessage::Bucket { bucket, envelope: Envelope { from, to, message } })
            }
            Self::Call { .. } | Self::CallAnswer { .. } => None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadFrame {
    #[error("a frame of {0} bytes, which is longer than any")]
    TooLong(usize),
    #[error("a frame that does not decode: the other side is broken, or not one of us")]
    Malformed,
}

/// Appends a frame to what is to be written.
pub(crate) fn put<T: Serialize>(buffer: &mut Vec<u8>, frame: &T) {
    let start = buffer.len();
    buffer.extend_from_slice(&[0; 4]);
    node::encode_onto(frame, buffer);
    let length = (buffer.len() - start - 4) as u32;
    buffer[start..start + 4].copy_from_slice(&length.to_le_bytes());
}

/// Takes the next frame out of what was read, if all of it is there.
pub(crate) fn take<T: for<'a> Deserialize<'a>>(buffer: &mut BytesMut, longest: usize) -> Result<Option<T>, BadFrame> {
    let Some(head) = buffer.first_chunk::<4>() else { return Ok(None) };
    let length = u32::from_le_bytes(*head) as usize;
    if length > longest {
        return Err(BadFrame::TooLong(length));
    }
    if buffer.len() < 4 + length {
        return Ok(None);
    }
    let frame = match postcard::take_from_bytes(&buffer[4..4 + length]) {
        Ok((frame, [])) => Ok(Some(frame)),
        Ok(_) | Err(_) => Err(BadFrame::Malformed),
    };
    buffer.advance(4 + length);
    frame
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use blueprint::{Blueprint, BucketId, Command, Epoch, Index, Instant, Member, Position, Slot, SlotSet, Term};
    use node::{Answer, HopId};
    use phaser::{Entry, Envelope, Image, Message, Payload, Progress};
    use proptest::prelude::*;
    use proptest::sample::Index as Place;
    use reactor::coordinator::{self, Order};

    use super::*;

    /// One of every kind.
    fn frames() -> Vec<Frame> {
        let at = |index| Position { term: Term(2), index: Index(index) };
        let slots = SlotSet::range(Slot(3), Slot(9));
        let entry = |index, payload| Entry { at: at(index), clock: 5, seed: 6, payload };
        let command = Payload::Command { slot: Slot(3), body: Bytes::from_static(b"SET a b") };
        let split = Payload::Split { child: BucketId(257), slots: slots.clone() };
        let entries = [entry(5, Payload::Reign), entry(6, command), entry(7, split)].into_iter().collect();
        let tables = vec![(Slot(3), Bytes::from_static(b"a table"))];
        let image = Image { as_of: Index(4), covered: slots.clone(), replaced: slots.clone(), tables };
        let (term, sent, commit) = (Term(2), Instant(77), Index(4));
        let progress = Progress { applied: Index(4), missing: slots.clone() };
        let spoken = [
            Message::Prepare { term, previous: at(4), entries, commit, sent },
            Message::Differs { term, last: at(4), known: at(3), progress, sent },
            Message::Begin { term, base: at(4), refuted: Some(at(9)), clock: 1, owned: slots.clone() },
            Message::Fill { term, image },
            Message::Abdicate { term },
        ];
        let bucket = BucketId(1);
        let envelope = |message| Envelope { from: Member::new(1, 1), to: Member::new(2, 1), message };
        let of_buckets = spoken.into_iter().map(|message| PeerMessage::Bucket { bucket, envelope: envelope(message) });
        let mut blueprint = Blueprint::new();
        let join = Command::AddNode { id: NodeId(1), name: "a".into(), zone: "z".into(), addresses: vec!["b".into()] };
        blueprint.apply(&join).expect("an empty blueprint takes it");
        let id = HopId { lane: 1, number: 1 << 60 };
        let holding = coordinator::Holding { incarnation: blueprint::Incarnation(1), last: at(4), whole: true };
        let holds = std::collections::BTreeMap::from([(bucket, holding)]);
        let compare = registrar::Message::Compare { nonce: 1, digest: u64::MAX };
        let (from, to) = (NodeId(1), NodeId(2));
        let others = [
            PeerMessage::Hop {
                id,
                keyspace: blueprint::KeyspaceId(1),
                bucket,
                hops: 1,
                command: values::Command::get(Bytes::from_static(b"k")),
            },
            PeerMessage::HopAnswer { id, answer: Answer::Reply(values::Reply::text("v")) },
            PeerMessage::Probe { round: 7, about: vec![bucket] },
            PeerMessage::Probed { round: 7, answer: coordinator::Answer { echoed: Epoch(3), holds } },
            PeerMessage::Push(Arc::new(blueprint)),
            PeerMessage::Echoed(Epoch(7)),
            PeerMessage::Order(Order::Split { bucket, child: BucketId(257), slots }),
            PeerMessage::Directory(registrar::Envelope { from, from_life: 1, to, to_life: 2, message: compare }),
        ];
        let calls = [
            Frame::Call { id: 1, body: Bytes::from_static(b"abc") },
            Frame::CallAnswer { id: u64::MAX, body: Bytes::new() },
        ];
        of_buckets.chain(others).map(Frame::from).chain(calls).collect()
    }

    fn bytes_of(frame: &Frame) -> Vec<u8> {
        let mut bytes = Vec::new();
        put(&mut bytes, frame);
        bytes
    }

    /// Everything that is in there, until somebody would be cut off.
    fn read<T: for<'a> Deserialize<'a>>(stream: &[u8], cuts: &[Place], longest: usize) -> (Vec<T>, Option<BadFrame>) {
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(stream.len() + 1)).chain([stream.len()]).collect();
        cuts.sort_unstable();
        let (mut buffer, mut seen, mut from) = (BytesMut::new(), Vec::new(), 0);
        for cut in cuts {
            buffer.extend_from_slice(&stream[from..cut]);
            from = cut;
            loop {
                match take(&mut buffer, longest) {
                    Ok(Some(frame)) => seen.push(frame),
                    Ok(None) => break,
                    Err(bad) => return (seen, Some(bad)),
                }
            }
        }
        (seen, None)
    }

    #[test]
    fn what_is_too_long_or_garbage_is_refused_before_it_is_kept() {
        let mut long = BytesMut::from(&[0xff, 0xff, 0xff, 0xff][..]);
        assert_eq!(take::<Frame>(&mut long, LONGEST_GREETING), Err(BadFrame::TooLong(u32::MAX as usize)));
        let mut garbage = BytesMut::from(&[2, 0, 0, 0, 0xff, 0xff][..]);
        assert_eq!(take::<Frame>(&mut garbage, LONGEST_GREETING), Err(BadFrame::Malformed));
        let mut longer = bytes_of(&Frame::Message(PeerMessage::Echoed(Epoch(7))));
        longer[0] += 1;
        longer.push(0);
        assert_eq!(take::<Frame>(&mut BytesMut::from(&longer[..]), LONGEST_GREETING), Err(BadFrame::Malformed));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn frames_arrive_whole_however_they_are_cut(
            which in prop::collection::vec(any::<Place>(), 0..6),
            cuts in prop::collection::vec(any::<Place>(), 0..6),
        ) {
            let all = frames();
            let sent: Vec<Frame> = which.iter().map(|which| all[which.index(all.len())].clone()).collect();
            let stream: Vec<u8> = sent.iter().flat_map(bytes_of).collect();
            prop_assert_eq!(read(&stream, &cuts, LONGEST_FRAME), (sent, None));
        }

        /// Whatever a peer says: it is understood or cut off, and how it was cut into pieces makes no difference.
        #[test]
        fn garbage_does_no_harm(
            stream in prop::collection::vec(any::<u8>(), 0..300),
            small in any::<bool>(),
            cuts in prop::collection::vec(any::<Place>(), 0..6),
        ) {
            let mut stream = stream;
            if small && stream.len() > 4 {
                stream[1..4].fill(0); // a length that comes to an end
            }
            prop_assert_eq!(read::<Frame>(&stream, &cuts, LONGEST_FRAME), read::<Frame>(&stream, &[], LONGEST_FRAME));
            prop_assert_eq!(
                read::<Hello>(&stream, &cuts, LONGEST_GREETING),
                read::<Hello>(&stream, &[], LONGEST_GREETING)
            );
            read::<Welcome>(&stream, &cuts, LONGEST_GREETING);
        }

        /// The body of a frame that is nearly right. What is understood is something that could have been said: it says the same
        /// when it is passed on.
        #[test]
        fn what_is_nearly_right_is_understood_or_refused(
            which in any::<Place>(),
            wounds in prop::collection::vec((any::<Place>(), any::<u8>()), 1..6),
        ) {
            let all = frames();
            let mut stream = bytes_of(&all[which.index(all.len())]);
            for (at, value) in wounds {
                let at = 4 + at.index(stream.len() - 4);
                stream[at] = value;
            }
            let (seen, _bad) = read::<Frame>(&stream, &[], LONGEST_FRAME);
            for frame in seen {
                prop_assert_eq!(read::<Frame>(&bytes_of(&frame), &[], LONGEST_FRAME), (vec![frame], None));
            }
        }
    }
}
