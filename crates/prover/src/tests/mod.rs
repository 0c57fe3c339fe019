//! The prover proven: a store that is right passes, and each flaw is found, over real sockets.

mod fake;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use history::{Call, Operation, Outcome, Seen};
use tokio::sync::watch;

use self::fake::{FLAWED, Fake, Flaw};
use crate::{Disturbance, Error, Failed, FaultKind, Faults, Hands, Health, Live, Next, Report, Settings, prove, tidy};

fn settings(addresses: Vec<String>) -> Settings {
    Settings {
        addresses,
        redis_cluster: false,
        // Runs end when enough is done; this is for those that hang.
        length: Duration::from_secs(60),
        clients: 4,
        seed: 7,
        disturbance: Disturbance::Nothing,
    }
}

/// Until more writes are acknowledged than flaws need to show.
async fn report_on(settings: Settings) -> Report {
    let live = Arc::new(Live::new(0x1));
    let (stop, stopped) = watch::channel(false);
    let watched = Arc::clone(&live);
    tokio::spawn(async move {
        while watched.acknowledged() < FLAWED + 200 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        stop.send_replace(true);
    });
    let record = prove(&settings, &live, stopped).await.expect("the fake answers");
    assert_eq!(tidy(&settings, &record).await, 0);
    Report::new(&record, &record.history.judge())
}

async fn report_on_fake(fake: Fake) -> Report {
    report_on(settings(vec![fake.start().await])).await
}

#[tokio::test]
async fn a_right_store_passes() {
    let fake = Fake::default();
    let store = Arc::clone(&fake.store);
    let report = report_on_fake(fake).await;
    assert!(store.lock().expect("tests fail elsewhere").is_empty(), "nothing is left behind");
    assert!(report.is_clean(), "{report:#?}");
    assert!(report.series);
    assert!(report.errors.is_empty(), "{:?}", report.errors);
    assert!(report.acknowledged_writes >= FLAWED);
    assert!(report.checked.registers > 0 && report.checked.counters > 0 && report.checked.lists > 0);
    for command in ["SET", "GET", "DEL", "INCR", "GET of a counter", "RPUSH", "LRANGE"] {
        assert!(report.operations[command].answered > 0, "{command}");
    }
}

/// Lost answers and refusals are no violation, as long as nothing is done twice.
#[tokio::test]
async fn a_right_store_on_a_bad_day_passes() {
    let report = report_on_fake(Fake { silent_every: 13, reluctant_every: 17, ..Fake::default() }).await;
    assert!(report.is_clean(), "{report:#?}");
    assert!(report.errors["connection lost"] > 0 && report.errors["TRYAGAIN"] > 0, "{:?}", report.errors);
    let uncertain: u64 = report.operations.values().map(|outcomes| outcomes.uncertain).sum();
    assert!(uncertain > 0, "what is in no series stays unknown");
}

#[tokio::test]
async fn lost_writes_are_found() {
    let report = report_on_fake(Fake { flaw: Flaw::LosesWrites, ..Fake::default() }).await;
    assert!(report.lost > 0 && !report.is_clean(), "{report:#?}");
    let told = &report.violations[0];
    assert!(told.key.starts_with("prove:1:") && !told.story.is_empty(), "{told:#?}");
}

#[tokio::test]
async fn writes_that_are_done_twice_are_found() {
    let report = report_on_fake(Fake { flaw: Flaw::ForgetsSeries, silent_every: 13, ..Fake::default() }).await;
    assert!(report.duplicated > 0 && !report.is_clean(), "{report:#?}");
}

#[tokio::test]
async fn stale_reads_are_found() {
    let report = report_on_fake(Fake { flaw: Flaw::ReadsStale, ..Fake::default() }).await;
    assert!(report.stale_reads > 0 && !report.is_clean(), "{report:#?}");
    assert_eq!(report.lost, 0, "all is there in the end");
}

#[tokio::test]
async fn lists_out_of_order_are_found() {
    let report = report_on_fake(Fake { flaw: Flaw::SwapsItems, ..Fake::default() }).await;
    assert!(report.other_violations > 0 && !report.is_clean(), "{report:#?}");
    assert!(report.violations.iter().any(|told| told.checker == "list_order"));
}

#[tokio::test]
async fn nonsense_is_found() {
    let report = report_on_fake(Fake { flaw: Flaw::TalksNonsense, ..Fake::default() }).await;
    assert!(!report.strange_answers.is_empty() && !report.is_clean());
}

/// The first node believes that it has all slots, until it is asked for the wrong ones.
#[tokio::test]
async fn redirects_of_a_redis_cluster_are_followed() {
    let second = Fake { knows_series: false, draws_map: false, ..Fake::default() };
    let at_second = Arc::clone(&second.store);
    let second = second.start().await;
    let first = Fake { knows_series: false, odd_slots_at: Some(second), ..Fake::default() };
    let at_first = Arc::clone(&first.store);
    let addresses = vec![first.start().await];
    let report = report_on(Settings { redis_cluster: true, ..settings(addresses) }).await;
    assert!(report.is_clean(), "{report:#?}");
    assert!(!report.series, "a Redis has no SERIES");
    assert!(report.errors["MOVED"] > 0);
    let writes = |store: &Mutex<fake::Store>| store.lock().expect("tests fail elsewhere").writes;
    assert!(writes(&at_first) > 0 && writes(&at_second) > 0, "both have slots");
}

#[tokio::test(start_paused = true)]
async fn nobody_there() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("bound").to_string();
    drop(listener);
    let (_stop, stopped) = watch::channel(false);
    let proven = prove(&settings(vec![address.clone()]), &Arc::new(Live::new(1)), stopped).await;
    assert!(matches!(proven, Err(Error::Unreachable { .. })), "{proven:?}");
    assert_eq!(crate::who_answers(&[address]).await, Vec::<String>::new());
}

/// Writes down what is asked of it.
#[derive(Debug, Default)]
struct Recorder {
    done: Mutex<Vec<(String, FaultKind, u16)>>,
    looks: Mutex<u32>,
}

impl Recorder {
    fn note(&self, what: &str, kind: FaultKind, node: u16) {
        self.done.lock().expect("tests fail elsewhere").push((what.into(), kind, node));
    }
}

impl Hands for Recorder {
    fn nodes(&self) -> Vec<u16> {
        vec![1, 2, 3]
    }

    fn strike(&self, kind: FaultKind, node: u16) -> Result<(), Failed> {
        self.note("strike", kind, node);
        Ok(())
    }

    fn heal(&self, kind: FaultKind, node: u16) -> Result<(), Failed> {
        self.note("heal", kind, node);
        Ok(())
    }

    /// Takes a few looks to get well.
    fn health(&self) -> Health {
        let mut looks = self.looks.lock().expect("tests fail elsewhere");
        *looks += 1;
        if looks.is_multiple_of(3) { Health::Well } else { Health::Serves("a copy is missing".into()) }
    }
}

/// Cannot start a node again.
#[derive(Debug)]
struct Clumsy;

impl Hands for Clumsy {
    fn nodes(&self) -> Vec<u16> {
        vec![1]
    }

    fn strike(&self, _: FaultKind, _: u16) -> Result<(), Failed> {
        Ok(())
    }

    fn heal(&self, _: FaultKind, node: u16) -> Result<(), Failed> {
        Err(Failed(format!("node {node} ended: its disk is gone")))
    }

    fn health(&self) -> Health {
        Health::Well
    }
}

/// What was seen until then is judged all the same.
#[tokio::test]
async fn a_node_that_does_not_come_back_is_a_problem() {
    let address = Fake::default().start().await;
    let faults = Faults {
        kinds: vec![FaultKind::Kill],
        every: Duration::from_millis(1),
        next: Next::Whole,
        hands: Arc::new(Clumsy),
    };
    let live = Arc::new(Live::new(1));
    let (_stop, stopped) = watch::channel(false);
    let settings = Settings { disturbance: Disturbance::Faults(faults), ..settings(vec![address]) };
    let record = prove(&settings, &live, stopped).await.expect("the fake answers");
    let report = Report::new(&record, &record.history.judge());
    assert!(!report.is_clean() && report.violations.is_empty(), "{report:#?}");
    assert!(report.acknowledged_writes > 0 && report.checked.answered > 0);
    assert!(report.problems.iter().any(|problem| problem.contains("its disk is gone")), "{:?}", report.problems);
}

/// With a clock that jumps whenever everybody waits.
#[tokio::test(start_paused = true)]
async fn each_fault_is_healed_before_the_next() {
    let (live, recorder) = (Arc::new(Live::new(1)), Arc::new(Recorder::default()));
    let writer = Arc::clone(&live);
    tokio::spawn(async move {
        loop {
            tokio::time::sleep(Duration::from_millis(10)).await;
            let outcome = Outcome::Answered { at: writer.now(), seen: Seen::Done };
            let call = Call::Write { value: 1, ttl: None };
            writer.add(Operation { client: 0, key: 0, call, invoked: 0, outcome }, 0, false);
        }
    });
    let faults = Faults {
        kinds: vec![FaultKind::Kill, FaultKind::Pause],
        every: Duration::from_secs(2),
        next: Next::Whole,
        hands: Arc::clone(&recorder) as Arc<dyn Hands>,
    };
    let (_stop, stopped) = watch::channel(false);
    faults.run(&live, Duration::from_secs(60), 3, stopped).await.expect("it can strike");

    let done = recorder.done.lock().expect("tests fail elsewhere").clone();
    assert!(done.len() >= 8, "{done:?}");
    for pair in done.chunks(2) {
        let [(strike, kind, node), (heal, healed, same)] = pair else { panic!("not healed: {done:?}") };
        assert_eq!((strike.as_str(), heal.as_str(), kind, node), ("strike", "heal", healed, same));
    }
    let kinds: BTreeSet<FaultKind> = done.iter().map(|(_, kind, _)| *kind).collect();
    assert_eq!(kinds.len(), 2);
    let strikes = live.take().strikes;
    assert_eq!(strikes.len(), done.len() / 2);
    assert!(strikes.iter().all(|strike| strike.recovered.is_some() && strike.rate_before > 0), "{strikes:?}");
}
