//! Honesty as a type. Every machine takes a zero-sized [`Conduct`]; the product is built with [`Honest`], which the compiler
//! folds away. Only the simulator has another one, and with it plants the bugs below to prove that it would find them.

/// One planted bug each: the rule that is broken stands beside it.
///
/// No `Debug`: not even the names may reach a binary of the product.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_debug_implementations)]
pub enum Breach {
    // Governments and leases
    CommitOnMajority,              // R1
    AckFromEarlierTerm,            // R1
    UptoIsEndOfLog,                // R1
    CommitNotClamped,              // R1
    PromisedNotSynced,             // R2
    AnswerBeforeDurable,           // R1
    CandidateUsurps,               // R3
    RestartedPrimaryResumes,       // R4
    ServesBeforeReign,             // R4
    UsurpCarriesLastOnly,          // R4
    NoWaitForLease,                // R5
    LeaseFromReceipt,              // R5
    LeaseCheckedBeforeRead,        // R5
    GrantsForgottenOnRestart,      // R5
    RestartForgetsItsWait,         // R5
    AbdicateWithoutTerm,           // R5
    AbdicateBeforeOutcome,         // R5, R7
    SeatOneEntryShort,             // R6
    SeatBeforeReignAcked,          // R6
    GrowthWithoutJointAcks,        // R6
    JointAcksWithoutLeases,        // R6
    LeaveJointOnStillT,            // R7
    WritesAfterUnknownHandOver,    // R7
    TailCommittedBelowMinimum,     // R8
    WritesAcceptedAlone,           // R8
    LonePrimaryReadsWithoutAsking, // R9
    HeirReignsAtOnce,              // R9
    HeirsKeptAfterSeat,            // R9
    WipedDiskRejoins,              // R10
    ErasedKeepsIncarnation,        // R10
    DoubtIgnored,                  // R10
    ReenlistedBeforeErase,         // R11
    RedirectForAppended,           // R12
    SessionsByHighestNumber,       // R12
    ExpiredAnsweredBeforeReap,     // R13
    ClockRestartsUnderSuccessor,   // R13
    // Split
    ChildStartsEmpty,
    SplitCommitsDuringGrowth,
    ChildCountsParentLeases,
    ForkOverwritesReplica,
    ParentErasedBeforeFork,
    SessionsNotMovedBySplit,
    SplitToldBeforeCommit,
    SplitForgottenBySuccessor,
    // Merge
    BindKeepsTerms,
    SeatAloneWhileBound,
    AbsorbBeforeFreeze,
    FrozenErasedBeforeCheckpoint,
    RegisterAfterMerge,
    // Backfill
    TailAloneForHalfFilled,
    ImageWithoutReplay,
    ImageLabelledApplied,
    StartingOverKeepsSlots,
    AsOfIgnored,
    CheckpointOfLater,
    // Reactor
    EraseBeforeEcho,          // R11
    OlderBlueprintAccepted,   // R11
    MemberCreatesItselfEmpty, // R10
    WaitsUntold,
    WaitsKeptForEver,
    CopiesNotReplaced,
    // Coordinators
    StaleCoordinatorDeparts,
    TwoSuccessors,
    DepartureTouchesOthers,
    // Registrar
    NumberAdvancedByHalf,
    PushAcrossGap,
    TombstoneDroppedEarly,
    OwnerResumesBelow,
    PullBeyondContiguous,
    FailedPullSkipsSiblings,
    EarlierLifeSaidAgain,
}

pub trait Conduct: Copy + Default + 'static {
    fn breaks(breach: Breach) -> bool;
}

/// Breaks nothing, ever.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Honest;

impl Conduct for Honest {
    #[inline(always)]
    fn breaks(_: Breach) -> bool {
        false
    }
}
