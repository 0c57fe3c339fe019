//! What kind of world a seed makes: how large, how busy, and what goes wrong in it how often.

use std::fmt;

use crate::rng::Rng;

pub const MILLI: u64 = 1_000;
pub const SECOND: u64 = 1_000_000;

/// Everything that can go wrong. Each has its own rate, drawn per seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Fault {
    Crash,
    LostWrites,
    TornRecord,
    PowerCut,
    Wipe,
    Damage,
    Pause,
    ClockRate,
    WallJump,
    Loss,
    Delay,
    Duplicate,
    Reorder,
    CutSymmetric,
    CutOneWay,
    CutBridge,
    CutLink,
    SlowDisk,
    SlowNode,
    MetaSlow,
    MetaDown,
    MetaUnknown,
    StalePush,
    FalseAlarm,
    MetaCut,
    ReportLost,
    DirectoryLoss,
    Stall,
    Reboot,
    Blackout,
}

impl Fault {
    pub const ALL: [Self; 30] = [
        Self::Crash,
        Self::LostWrites,
        Self::TornRecord,
        Self::PowerCut,
        Self::Wipe,
        Self::Damage,
        Self::Pause,
        Self::ClockRate,
        Self::WallJump,
        Self::Loss,
        Self::Delay,
        Self::Duplicate,
        Self::Reorder,
        Self::CutSymmetric,
        Self::CutOneWay,
        Self::CutBridge,
        Self::CutLink,
        Self::SlowDisk,
        Self::SlowNode,
        Self::MetaSlow,
        Self::MetaDown,
        Self::MetaUnknown,
        Self::StalePush,
        Self::FalseAlarm,
        Self::MetaCut,
        Self::ReportLost,
        Self::DirectoryLoss,
        Self::Stall,
        Self::Reboot,
        Self::Blackout,
    ];

    /// One host, and nobody else.
    pub fn strikes_one(self) -> bool {
        matches!(
            self,
            Self::Crash
                | Self::Wipe
                | Self::Reboot
                | Self::Damage
                | Self::Pause
                | Self::WallJump
                | Self::SlowDisk
                | Self::SlowNode
                | Self::StalePush
                | Self::MetaCut
        )
    }

    pub fn words(self) -> &'static str {
        match self {
            Self::Crash => "crash and restart",
            Self::LostWrites => "unsynced write lost",
            Self::TornRecord => "record torn",
            Self::PowerCut => "all nodes lose power at once",
            Self::Wipe => "disk wiped",
            Self::Damage => "one replica damaged",
            Self::Pause => "node paused beyond its lease",
            Self::ClockRate => "clock runs at another rate",
            Self::WallJump => "wall clock jumps by hours",
            Self::Loss => "message lost",
            Self::Delay => "message delayed long",
            Self::Duplicate => "message duplicated",
            Self::Reorder => "message overtaken",
            Self::CutSymmetric => "partition",
            Self::CutOneWay => "one-way partition",
            Self::CutBridge => "bridged partition (A-B, B-C, not A-C)",
            Self::CutLink => "single link cut",
            Self::SlowDisk => "slow disk",
            Self::SlowNode => "slow node",
            Self::MetaSlow => "meta group slow",
            Self::MetaDown => "meta group unavailable",
            Self::MetaUnknown => "proposal's answer lost",
            Self::StalePush => "old blueprint pushed",
            Self::FalseAlarm => "live primary taken for dead",
            Self::Stall => "one lane of a node stalls",
            Self::Reboot => "operating system restarts (level memory)",
            Self::Blackout => "operating systems of all members restart",
            Self::MetaCut => "node cut off from the meta group",
            Self::ReportLost => "coordinator's report lost",
            Self::DirectoryLoss => "message of the directory lost",
        }
    }
}

/// A set of faults.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Faults(u32);

impl Faults {
    pub fn none() -> Self {
        Self(0)
    }

    pub fn has(self, fault: Fault) -> bool {
        self.0 & (1 << fault as u32) != 0
    }

    pub fn with(self, fault: Fault) -> Self {
        Self(self.0 | (1 << fault as u32))
    }

    pub fn without(self, fault: Fault) -> Self {
        Self(self.0 & !(1 << fault as u32))
    }

    pub fn iter(self) -> impl Iterator<Item = Fault> {
        Fault::ALL.into_iter().filter(move |f| self.has(*f))
    }

    pub fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl fmt::Debug for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

#[derive(Clone, Debug)]
pub struct Plan {
    pub seed: u64,
    pub nodes: usize,
    /// The fewest and the most lanes that a process of a node may start with.
    pub lanes: (u16, u16),
    pub buckets: usize,
    pub replicas: u8,
    /// Members that are needed for a write, once the world has healed.
    pub minimum: u8,
    /// A second keyspace, which nobody uses and which is removed again; its buckets split and move like any other.
    pub second_keyspace: bool,
    /// One node is this many microseconds further away than the others.
    pub far: u64,
    /// Many writes, close together: a candidate is never level by chance.
    pub busy: bool,
    pub clients: usize,
    /// Microseconds of true time until the world heals, at least thirty seconds in all with what follows.
    pub unrest: u64,
    /// How long it may take after that until everything serves.
    pub patience: u64,
    pub faults: Faults,
    /// Mean microseconds between two faults of the kinds that strike.
    pub fault_every: u64,
    /// Mean microseconds between two topology changes; none if zero.
    pub move_every: u64,
    pub think: u64,
    /// Keys per kind that are in use at once.
    pub keys: u64,
    pub latency: u64,
    pub disk_latency: u64,
    /// How many of a thousand messages come twice, where any do.
    pub duplicates: u64,
    /// How late a message is that is late, on average.
    pub lateness: u64,
    /// Mean time between a node's upkeeps.
    pub upkeep: u64,
    pub memory_level: bool,
    /// How often, in percent, a move that begins is ambushed by the crash of a participant.
    pub ambush: u64,
    pub read_percent: u64,
    /// Reads and writes only now and then, so that clocks drift apart between entries.
    pub quiet: bool,
    pub small_checkpoints: bool,
    /// What is told to the blueprint about splits gets lost most of the time.
    pub forgetful: bool,
    /// Mostly reads of keys that expire, and few writes: what a clock that lags would bring back is seen.
    pub watchful: bool,
    /// Rows in one message of the directory: where it is few, what a node has to say travels in parts.
    pub directory_rows: usize,
    /// How long it takes on average until a node is back after a power cut: where it is long, most siblings of one that starts are away.
    pub power_back: u64,
    /// Links that delay everything alike: what leaves together arrives together. For measurements.
    pub steady: bool,
    /// The cluster rebalances by itself, whenever it is calm for a moment.
    pub auto: bool,
    /// Operators wish for everything that there is: also another number of copies, restarts of processes, keyspaces that come and go.
    pub wide: bool,
    /// The vigil watches, too. Not over a bug that breaks something else: it would often be the first to notice, and prove nothing.
    pub vigil: bool,
}

/// From here on a cluster is large. Its seeds are shorter: there is more to do in each second.
pub const LARGE: usize = 10;
/// The largest that a seed draws by itself.
const LARGEST: usize = 50;
/// One seed in so many draws a large cluster.
const LARGE_EVERY: u64 = 40;

impl Plan {
    pub fn draw(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let nodes = rng.range(3, 7) as usize;
        let most = if nodes > 5 { 4 } else { 3 };
        let replicas = if rng.percent(8) { 1 } else { rng.range(2, most) as u8 };
        let minimum = if replicas >= 3 && rng.percent(25) { 3 } else { replicas.min(2) };
        let calm = rng.percent(6);
        let density = *rng.pick(&[15u64, 30, 50, 70]).expect("not empty");
        let mut faults = Faults::none();
        let drawn_below = [Fault::Reboot, Fault::Blackout];
        for fault in Fault::ALL.into_iter().filter(|fault| !drawn_below.contains(fault)) {
            if !calm && rng.percent(density) {
                faults = faults.with(fault);
            }
        }
        let busy = calm && rng.percent(40);
        let quiet = !busy && rng.percent(12);
        let watchful = rng.percent(12);
        let mut plan = Self {
            seed,
            nodes,
            lanes: *rng.pick(&[(1, 1), (1, 1), (2, 2), (3, 3), (1, 3)]).expect("not empty"),
            buckets: *rng.pick(&[1usize, 1, 2, 2, 3, 4, 6, 8]).expect("not empty"),
            replicas,
            minimum,
            second_keyspace: rng.percent(25),
            far: if rng.percent(10) || busy { 20 * MILLI } else { 0 },
            busy,
            clients: rng.range(5, 12) as usize,
            unrest: rng.range(30, 33) * SECOND,
            patience: PATIENCE,
            faults,
            fault_every: *rng.pick(&[400u64, 900, 2000, 5000]).expect("not empty") * MILLI,
            move_every: if rng.percent(10) { 0 } else { *rng.pick(&[300u64, 800, 2000]).expect("not empty") * MILLI },
            think: if quiet { 600 * MILLI } else { *rng.pick(&[8u64, 15, 30, 60]).expect("not empty") * MILLI },
            keys: rng.range(1, 6),
            latency: *rng.pick(&[200u64, 1000, 4000]).expect("not empty"),
            disk_latency: *rng.pick(&[200u64, 1000, 5000]).expect("not empty"),
            duplicates: *rng.pick(&[15u64, 15, 150]).expect("not empty"),
            lateness: *rng.pick(&[100u64, 700, 3000]).expect("not empty") * MILLI,
            upkeep: *rng.pick(&[250u64, 250, 1500]).expect("not empty") * MILLI,
            memory_level: rng.percent(10),
            ambush: if faults.has(Fault::Crash) { *rng.pick(&[0u64, 20, 50]).expect("not empty") } else { 0 },
            read_percent: *rng.pick(&[20u64, 40, 60]).expect("not empty"),
            quiet,
            small_checkpoints: rng.percent(50),
            watchful,
            forgetful: faults.has(Fault::MetaUnknown) && rng.percent(40),
            directory_rows: if rng.percent(40) { rng.range(1, 6) as usize } else { 1024 },
            power_back: *rng.pick(&[500u64, 500, 3000]).expect("not empty") * MILLI,
            steady: false,
            auto: false,
            wide: false,
            vigil: true,
        };
        if busy {
            plan.think = 3 * MILLI;
            plan.read_percent = 10;
            plan.fault_every = 400 * MILLI;
            plan.move_every = 800 * MILLI;
        } else if watchful {
            plan.think = 60 * MILLI;
            plan.read_percent = 94;
            plan.upkeep = 2 * SECOND;
            plan.keys = plan.keys.min(2);
            if !calm {
                plan.faults = plan.faults.with(Fault::WallJump).with(Fault::FalseAlarm);
            }
        }
        // Dice of their own, so that all other seeds draw what they always drew.
        let mut rng = Rng::new(seed ^ 0x1a26e);
        if rng.next().is_multiple_of(LARGE_EVERY) {
            plan.resize(rng.range(LARGE as u64, LARGEST as u64) as usize);
        }
        if plan.memory_level && !calm && rng.percent(60) {
            plan.faults = plan.faults.with(Fault::Reboot);
        }
        if plan.memory_level && !calm && rng.percent(60) {
            plan.faults = plan.faults.with(Fault::Blackout);
        }
        if plan.nodes < LARGE && rng.percent(15) {
            plan.auto = true;
        }
        plan.wide = rng.percent(33);
        if plan.auto || plan.wide {
            plan.patience = LONG_PATIENCE;
        }
        plan
    }

    /// The same world with a bug in it. It does not rebalance by itself, and nobody wishes for what has no rule of its own: what a seed has
    /// noticed it goes on to notice.
    pub fn for_a_bug(mut self) -> Self {
        if self.auto || self.wide {
            (self.auto, self.wide, self.patience) = (false, false, PATIENCE);
        }
        self
    }

    /// About how many of them there are before the world heals.
    pub fn writes(&self) -> u64 {
        let calls = self.clients as u64 * self.unrest / self.think.max(1);
        calls * (100 - self.read_percent) / 100
    }

    /// The same world with so many nodes, and the rest to match: everyone has something to lead.
    pub fn resize(&mut self, nodes: usize) {
        self.nodes = nodes;
        self.replicas = self.replicas.min(nodes as u8);
        self.minimum = self.minimum.min(self.replicas);
        if nodes >= LARGE {
            self.buckets = self.buckets.max(nodes);
            self.lanes = (1, self.lanes.1.min(2));
            self.unrest = self.unrest.min(LARGE_UNREST);
            self.move_every = self.move_every.min(800 * MILLI);
            self.fault_every = self.fault_every.min(900 * MILLI);
        }
    }
}

const PATIENCE: u64 = 40 * SECOND;
/// What is cancelled is begun again after a while, and copies of everything may have to move.
const LONG_PATIENCE: u64 = 120 * SECOND;
/// Long enough for departures, recoveries and returns, a few times over.
const LARGE_UNREST: u64 = 9 * SECOND;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_seeds_draw_large_clusters() {
        let large: Vec<usize> = (0..4000).map(|seed| Plan::draw(seed).nodes).filter(|nodes| *nodes >= LARGE).collect();
        assert!((70..=130).contains(&large.len()), "{} of 4000", large.len());
        assert!(large.iter().any(|nodes| *nodes >= 45) && large.iter().all(|nodes| *nodes <= LARGEST), "{large:?}");
    }

    #[test]
    fn some_small_clusters_rebalance_by_themselves() {
        let auto: Vec<Plan> = (0..1000).map(Plan::draw).filter(|plan| plan.auto).collect();
        assert!((100..=200).contains(&auto.len()), "{} of 1000", auto.len());
        assert!(auto.iter().all(|plan| plan.nodes < LARGE && plan.patience == LONG_PATIENCE));
        let by_hand = auto[0].clone().for_a_bug();
        assert!(!by_hand.auto && by_hand.patience == PATIENCE);
    }

    #[test]
    fn in_a_third_of_the_worlds_everything_is_wished_for() {
        let wide: Vec<Plan> = (0..1000).map(Plan::draw).filter(|plan| plan.wide).collect();
        assert!((280..=380).contains(&wide.len()), "{} of 1000", wide.len());
        assert!(wide.iter().any(|plan| plan.nodes >= LARGE) && wide.iter().any(|plan| plan.auto));
        assert!(wide.iter().all(|plan| plan.patience == LONG_PATIENCE && !plan.clone().for_a_bug().wide));
    }

    #[test]
    fn a_large_cluster_has_something_to_lead_for_everyone() {
        for seed in 0..50 {
            let mut plan = Plan::draw(seed);
            plan.resize(50);
            assert!(plan.nodes == 50 && plan.buckets >= 50 && plan.unrest <= LARGE_UNREST, "{plan:?}");
            plan.resize(2);
            assert!(plan.replicas <= 2 && plan.minimum <= plan.replicas, "{plan:?}");
        }
    }
}
