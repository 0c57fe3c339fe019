//! What recovery found out of the ordinary. Each text says what happened, what it means, and what to do.

use std::fmt;

use blueprint::BucketId;
use serde::Serialize;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum Note {
    /// The end of the journal was being written when the machine stopped.
    TornTail {
        segment: u64,
        after: u64,
        dropped: u64,
    },
    /// Frames that were synced are not readable any more.
    Damaged {
        segment: u64,
        after: u64,
        next: u64,
    },
    /// One of the two copies of a segment's header.
    HeaderCopy {
        file: String,
    },
    /// Neither copy of it is readable, and it was in use.
    Header {
        file: String,
    },
    /// The end of the journal is not there, although it was synced.
    Missing {
        segment: u64,
        after: u64,
    },
    /// The disk did not give these blocks back at all.
    Unreadable {
        file: String,
        blocks: u64,
    },
    /// A table of a checkpoint is not what was saved.
    Table {
        bucket: BucketId,
        file: String,
        slot: u16,
    },
    ReplicaLost {
        bucket: BucketId,
    },
    EpochsInDoubt,
    /// The operating system restarted, and these buckets do not sync before they answer.
    Doubtful {
        buckets: Vec<BucketId>,
    },
}

impl Note {
    /// The segment that it is about, of those that can turn out to be of no use any more.
    pub(crate) fn segment(&self) -> Option<u64> {
        match self {
            Self::Damaged { segment, .. } => Some(*segment),
            _ => None,
        }
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TornTail { segment, after, dropped } => write!(
                f,
                "the journal ends with an unfinished write in segment {segment}, after record {after} ({dropped} readable records \
                 after it are dropped). That is normal after a crash or power cut: nothing of it was reported as synced. \
                 Nothing needs to be done."
            ),
            Self::Damaged { segment, after, next } => write!(
                f,
                "segment {segment} of the journal is damaged after record {after}, up to record {next}. What was there had been \
                 synced: the disk, or somebody, changed it. Replicas that this may concern are reported as lost and return from \
                 the other members. Have the disk checked."
            ),
            Self::HeaderCopy { file } => write!(
                f,
                "one of the two copies of the header of {file} is damaged. The other one is whole, so nothing is missing. If \
                 this machine had no crash or power cut, have the disk checked."
            ),
            Self::Header { file } => write!(
                f,
                "both copies of the header of {file} are damaged, and it held records that nothing else has. They count as \
                 missing: replicas that this may concern are reported as lost. Have the disk checked."
            ),
            Self::Missing { segment, after } => write!(
                f,
                "the end of the journal is gone: it reached into segment {segment} and was synced, and nothing after record {after} \
                 is there. Replicas count as lost and return from the other members; one that began in the missing part \
                 cannot even be named here. Find out who removed it, or have the disk checked."
            ),
            Self::Unreadable { file, blocks } => write!(
                f,
                "the disk refused to give back {blocks} blocks of {file}. They count as damaged. Replace the disk."
            ),
            Self::Table { bucket, file, slot } => write!(
                f,
                "the checkpoint of bucket {bucket} in {file} is damaged (slot {slot}). The replica is reported as lost and \
                 returns from the other members. Have the disk checked."
            ),
            Self::ReplicaLost { bucket } => write!(
                f,
                "the replica of bucket {bucket} cannot be proven complete and counts as lost. It returns as a candidate and is \
                 filled by the other members; no acknowledged write is lost while another member has it."
            ),
            Self::EpochsInDoubt => write!(
                f,
                "it cannot be told any more up to which epoch of the blueprint this node acted, nor which replicas were here. So \
                 nothing here proves that a replica never was: the node asks the meta group for the newest blueprint before it \
                 follows any, and whatever that names and is not here counts as lost. It returns from the other members; where \
                 there are none, somebody has to decide. Have the disk checked."
            ),
            Self::Doubtful { buckets } => {
                write!(
                    f,
                    "the operating system restarted without a clean stop of this node, and these buckets answer before they \
                     sync (level memory):"
                )?;
                for bucket in buckets {
                    write!(f, " {bucket}")?;
                }
                write!(f, ". Up to a second of their acknowledged writes may be missing here; other members have them.")
            }
        }
    }
}
