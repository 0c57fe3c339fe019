//! One run: ask whether anybody is there, work, disturb, read everything once more.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;
use values::{Connection as Series, Reply, slot_of};

use crate::changes::Changes;
use crate::client::Client;
use crate::connection::Connection;
use crate::faults::{Faults, is_stopped};
use crate::heard::{Heard, hear_error};
use crate::record::{Live, Record};
use crate::route::{Attempt, Route};
use crate::workload::{Workload, connection_id, expires_after, key_name, series_words};

/// How long to wait for a first write, before it is said that the cluster cannot be asked.
const FIRST_WRITE: Duration = Duration::from_secs(15);
/// For reading everything back, in µs.
const READ_BACK: u64 = 120_000_000;
/// Whether a node is there at all.
const GREETING: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(50);

#[derive(Clone, Debug)]
pub struct Settings {
    pub addresses: Vec<String>,
    /// Ask at the right node, as clients of a Redis Cluster do.
    pub redis_cluster: bool,
    pub length: Duration,
    pub clients: u32,
    pub seed: u64,
    pub disturbance: Disturbance,
}

/// What happens to the cluster meanwhile.
#[derive(Clone, Debug)]
pub enum Disturbance {
    Nothing,
    Faults(Faults),
    /// The run is as long as they take.
    Changes(Changes),
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("no write was accepted at {addresses} within 15 seconds: {why}")]
    Unreachable { addresses: String, why: String },
}

/// Those that say something to a `PING`.
pub async fn who_answers(addresses: &[String]) -> Vec<String> {
    let mut found = Vec::new();
    for address in addresses {
        let Ok(mut connection) = Connection::open(address).await else { continue };
        if connection.ask(&[Bytes::from_static(b"PING")], GREETING).await.is_ok() {
            found.push(address.clone());
        }
    }
    found
}

/// Ends early when `stop` becomes true: with everything healed, and judged as far as it came.
pub async fn prove(settings: &Settings, live: &Arc<Live>, mut stop: watch::Receiver<bool>) -> Result<Record, Error> {
    live.enter("a first write");
    let run = live.run();
    let knows_series = first_write(settings, run).await?;
    live.change(|record| (record.series, record.began) = (knows_series, live.now()));
    let mut workload = Workload::new(run, settings.seed);
    if knows_series {
        let longest = match &settings.disturbance {
            Disturbance::Changes(changes) => changes.longest(),
            Disturbance::Faults(_) | Disturbance::Nothing => settings.length,
        };
        workload.use_series(settings.clients, longest.as_secs());
    }
    let workload = Arc::new(Mutex::new(workload));

    let mut clients = JoinSet::new();
    for mut client in all_clients(settings, live) {
        let workload = Arc::clone(&workload);
        clients.spawn(async move { client.work(&workload).await });
    }
    let disturbed = match &settings.disturbance {
        Disturbance::Faults(faults) => faults.run(live, settings.length, settings.seed ^ 0xfau64, stop).await,
        Disturbance::Changes(changes) => changes.run(live, stop).await,
        Disturbance::Nothing => {
            live.enter("calm");
            is_stopped(&mut stop, settings.length).await;
            Ok(())
        }
    };
    live.enter("last answers");
    live.change(|record| record.ended = live.now());
    workload.lock().expect("nobody panics with it").wind_down();
    while let Some(client) = clients.join_next().await {
        client.expect("a client that panics is a bug, and what it had asked is missing from the record");
    }
    // No reason not to judge what there is.
    if let Err(failed) = disturbed {
        live.change(|record| {
            record.problems.push(format!("the cluster was not disturbed as it should have been: {failed}"));
        });
    }

    live.enter("reading everything once more");
    read_back(settings, live, &workload).await;
    Ok(live.take())
}

fn all_clients(settings: &Settings, live: &Arc<Live>) -> impl Iterator<Item = Client> {
    (0..settings.clients).map(|number| Client { number, route: route_of(settings, number), live: Arc::clone(live) })
}

fn route_of(settings: &Settings, client: u32) -> Route {
    let (addresses, seed) = (settings.addresses.clone(), settings.seed.wrapping_add(1 + u64::from(client)));
    if settings.redis_cluster { Route::cluster(addresses, seed) } else { Route::any(addresses, seed) }
}

/// Written before all others, to see whether anybody is there.
fn first_key(run: u64) -> String {
    format!("prove:{run:x}:first")
}

/// Every key that was ever used.
async fn read_back(settings: &Settings, live: &Arc<Live>, workload: &Mutex<Workload>) {
    let mut keys = BTreeSet::new();
    live.change(|record| keys.extend(record.history.operations.iter().map(|operation| operation.key)));
    let tasks = {
        let workload = workload.lock().expect("nobody panics with it");
        keys.into_iter().map(|key| workload.read(key)).collect()
    };
    let tasks: Arc<Mutex<Vec<_>>> = Arc::new(Mutex::new(tasks));
    let deadline = live.now() + READ_BACK;
    let mut clients = JoinSet::new();
    for mut client in all_clients(settings, live) {
        let tasks = Arc::clone(&tasks);
        clients.spawn(async move { client.read_back(&tasks, deadline).await });
    }
    while let Some(client) = clients.join_next().await {
        client.expect("a client that panics is a bug, and what it had asked is missing from the record");
    }
}

/// Deletes the keys of a run, and says how many could not be.
pub async fn tidy(settings: &Settings, record: &Record) -> usize {
    let keys: BTreeSet<u32> = record.history.operations.iter().map(|operation| operation.key).collect();
    let names = keys.into_iter().map(|key| key_name(record.run, key)).chain([first_key(record.run)]);
    let names: Arc<Mutex<Vec<String>>> = Arc::new(Mutex::new(names.collect()));
    let mut clients = JoinSet::new();
    for number in 0..settings.clients {
        let (mut route, names) = (route_of(settings, number), Arc::clone(&names));
        clients.spawn(async move {
            loop {
                let Some(name) = names.lock().expect("nobody panics with it").pop() else { return 0 };
                let (key, mut why) = (Bytes::from(name), String::new());
                let words = [Bytes::from_static(b"DEL"), key.clone()];
                let deleted = timeout(FIRST_WRITE, until_done(&mut route, &key, &words, &mut why)).await;
                if !matches!(deleted, Ok(Some(_))) {
                    // The others are left alone, too: a cluster that does not delete one key is not asked for thousands.
                    return 1 + names.lock().expect("nobody panics with it").drain(..).count();
                }
            }
        });
    }
    let mut left = 0;
    while let Some(client) = clients.join_next().await {
        left += client.expect("tidying does not panic");
    }
    left
}

/// Whether the cluster takes writes at all; and whether it knows `SERIES`.
async fn first_write(settings: &Settings, run: u64) -> Result<bool, Error> {
    let mut route = route_of(settings, 0);
    let mut why = String::from("nobody listens there");
    let key = Bytes::from(first_key(run));
    let set = vec![Bytes::from_static(b"SET"), key.clone(), Bytes::from_static(b"1")];
    timeout(FIRST_WRITE, until_done(&mut route, &key, &set, &mut why))
        .await
        .ok()
        .flatten()
        .ok_or_else(|| Error::Unreachable { addresses: settings.addresses.join(", "), why: why.clone() })?;
    let connection = Series { id: connection_id(run, u32::from(u16::MAX)), expires: expires_after(0) };
    let get = series_words(connection, 1, vec![Bytes::from_static(b"GET"), key.clone()]);
    let knows = timeout(FIRST_WRITE, until_done(&mut route, &key, &get, &mut why)).await.ok().flatten();
    Ok(knows.is_some_and(|reply| reply == Reply::text("1")))
}

/// Until there is an answer other than "try again"; nothing if it is an error.
async fn until_done(route: &mut Route, key: &[u8], words: &[Bytes], why: &mut String) -> Option<Reply> {
    loop {
        match route.ask(slot_of(key), words).await {
            Attempt::Replied(Reply::Error(text)) => {
                *why = String::from_utf8_lossy(&text).into_owned();
                match hear_error(why) {
                    Heard::Moved { slot, address } => {
                        route.on_moved(slot, &address);
                        tokio::time::sleep(PAUSE).await;
                        continue;
                    }
                    Heard::Refused(_) => {}
                    _ if why.starts_with("UNCERTAIN") => {}
                    _ => return None,
                }
            }
            Attempt::Replied(reply) => return Some(reply),
            Attempt::Unsent => *why = "nobody listens there".into(),
            Attempt::Unknown(silence) => *why = silence.to_string(),
        }
        route.turn();
        tokio::time::sleep(PAUSE).await;
    }
}
