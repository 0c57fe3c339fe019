//! Planted bugs: the proof that the world would notice.

use std::cell::Cell;

use blueprint::{Breach, Conduct};

use crate::plan::Fault;

thread_local! {
    static PLANTED: Cell<Option<Breach>> = const { Cell::new(None) };
}

/// Breaks the one rule that was planted in this thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Saboteur;

impl Conduct for Saboteur {
    fn breaks(breach: Breach) -> bool {
        PLANTED.get() == Some(breach)
    }
}

/// Everything that runs in this thread until the guard is dropped has this bug.
pub fn plant(breach: Breach) -> Planted {
    PLANTED.set(Some(breach));
    Planted(())
}

#[derive(Debug)]
pub struct Planted(());

impl Drop for Planted {
    fn drop(&mut self) {
        PLANTED.set(None);
    }
}

/// A planted bug, the name it goes by, and the rule that it breaks.
#[allow(missing_debug_implementations)]
#[derive(Clone, Copy)]
pub struct Sabotage {
    pub breach: Breach,
    pub name: &'static str,
    pub rule: &'static str,
}

impl Sabotage {
    /// Without this fault nobody can notice it: such worlds need not be looked at.
    pub fn needs(&self) -> Option<Fault> {
        match self.breach {
            Breach::DoubtIgnored => Some(Fault::Reboot),
            _ => None,
        }
    }
}

macro_rules! sabotages {
    ($($breach:ident $name:literal $rule:literal,)*) => {
        pub const ALL: &[Sabotage] = &[$(Sabotage { breach: Breach::$breach, name: $name, rule: $rule },)*];
    };
}

sabotages! {
    CommitOnMajority "commit-on-a-majority" "R1",
    AckFromEarlierTerm "acks-of-an-earlier-term-counted" "R1",
    UptoIsEndOfLog "upto-is-end-of-own-log" "R1",
    CommitNotClamped "commit-index-not-clamped" "R1",
    AnswerBeforeDurable "answer-before-the-record-is-durable" "R1",
    PromisedNotSynced "promised-not-synced" "R2",
    CandidateUsurps "candidate-usurps" "R3",
    RestartedPrimaryResumes "restarted-primary-resumes-its-term" "R4",
    ServesBeforeReign "serving-before-the-reign-committed" "R4",
    UsurpCarriesLastOnly "usurp-carries-only-the-last-message" "R4",
    NoWaitForLease "no-wait-for-the-lease" "R5",
    LeaseFromReceipt "lease-counted-from-receipt" "R5",
    LeaseCheckedBeforeRead "lease-checked-before-the-read" "R5",
    GrantsForgottenOnRestart "grants-forgotten-on-restart" "R5",
    RestartForgetsItsWait "restart-forgets-its-wait" "R5",
    AbdicateWithoutTerm "abdicate-without-a-term" "R5",
    AbdicateBeforeOutcome "abdicate-before-the-outcome-is-known" "R5",
    SeatOneEntryShort "seat-one-entry-short" "R6",
    SeatBeforeReignAcked "seat-before-the-reign-is-acknowledged" "R6",
    GrowthWithoutJointAcks "growth-without-joint-acks" "R6",
    JointAcksWithoutLeases "joint-acks-without-joint-leases" "R6",
    LeaveJointOnStillT "leave-joint-mode-on-still-t" "R7",
    WritesAfterUnknownHandOver "writes-after-an-unknown-hand-over" "R7",
    TailCommittedBelowMinimum "tail-committed-below-the-minimum" "R8",
    WritesAcceptedAlone "writes-accepted-with-one-member" "R8",
    LonePrimaryReadsWithoutAsking "lone-primary-with-heirs-reads-without-asking" "R9",
    HeirReignsAtOnce "heir-reigns-at-once" "R9",
    HeirsKeptAfterSeat "heirs-kept-after-a-seat" "R9",
    WipedDiskRejoins "wiped-disk-rejoins-as-the-old-node" "R10",
    ErasedKeepsIncarnation "erased-replica-keeps-its-incarnation" "R10",
    DoubtIgnored "doubtful-replica-goes-on" "R10",
    ReenlistedBeforeErase "re-enlisted-between-check-and-erase" "R11",
    RedirectForAppended "redirect-for-an-appended-write" "R12",
    SessionsByHighestNumber "sessions-by-highest-number" "R12",
    ExpiredAnsweredBeforeReap "expired-key-answered-before-its-reap" "R13",
    ClockRestartsUnderSuccessor "entry-clock-restarts-under-a-successor" "R13",
    ChildStartsEmpty "child-started-empty-before-its-split" "split",
    SplitCommitsDuringGrowth "split-commits-while-growth-is-pending" "split",
    ChildCountsParentLeases "child-counts-the-parents-leases" "split",
    ForkOverwritesReplica "fork-overwrites-a-replica" "split",
    ParentErasedBeforeFork "parent-erased-before-the-fork" "split",
    SessionsNotMovedBySplit "sessions-not-moved-by-a-split" "split",
    SplitToldBeforeCommit "split-told-before-it-commits" "split",
    SplitForgottenBySuccessor "split-forgotten-by-a-successor" "split",
    BindKeepsTerms "bind-without-a-new-term" "merge",
    SeatAloneWhileBound "seat-in-one-of-two-that-are-bound" "merge",
    AbsorbBeforeFreeze "absorb-before-the-freeze-is-applied" "merge",
    FrozenErasedBeforeCheckpoint "frozen-copy-erased-before-the-checkpoint" "merge",
    RegisterAfterMerge "register-repeated-after-the-merge" "merge",
    TailAloneForHalfFilled "tail-alone-for-a-half-filled-candidate" "backfill",
    ImageWithoutReplay "image-taken-without-replay" "backfill",
    ImageLabelledApplied "image-labelled-with-the-applied-index" "backfill",
    StartingOverKeepsSlots "starting-over-keeps-old-slots" "backfill",
    AsOfIgnored "as-of-ignored" "backfill",
    CheckpointOfLater "checkpoint-of-what-came-later" "backfill",
    EraseBeforeEcho "erase-before-the-echo" "R11",
    OlderBlueprintAccepted "older-blueprint-accepted" "R11",
    MemberCreatesItselfEmpty "a-member-creates-itself-empty" "R10",
    WaitsUntold "waits-untold" "waits",
    WaitsKeptForEver "waits-kept-for-ever" "waits",
    CopiesNotReplaced "copies-not-replaced" "recovery",
    StaleCoordinatorDeparts "stale-coordinator-departs-a-live-node" "coordinators",
    TwoSuccessors "two-coordinators-name-two-successors" "coordinators",
    DepartureTouchesOthers "departure-touches-others" "coordinators",
    NumberAdvancedByHalf "number-advanced-by-half-an-update" "registrar",
    PushAcrossGap "push-accepted-across-a-gap" "registrar",
    TombstoneDroppedEarly "tombstone-dropped-early" "registrar",
    OwnerResumesBelow "owner-resumes-below-its-old-number" "registrar",
    PullBeyondContiguous "pull-served-beyond-the-contiguous-point" "registrar",
    FailedPullSkipsSiblings "failed-pull-skips-the-other-siblings" "registrar",
    EarlierLifeSaidAgain "what-an-earlier-life-said-is-said-again" "directory",
}
