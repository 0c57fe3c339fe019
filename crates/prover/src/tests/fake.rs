//! A store in this process, over a real socket, that has the flaw it is told to have.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use bytes::{Bytes, BytesMut};
use resp::{Protocol, Requests, encode};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use values::{Reply, slot_of};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flaw {
    None,
    /// At some time everything is as it was a while ago.
    LosesWrites,
    /// What is repeated is done again.
    ForgetsSeries,
    /// Some reads show what was there a while ago.
    ReadsStale,
    /// Some ranges have their first two items the other way round.
    SwapsItems,
    /// Some reads are answered nonsense.
    TalksNonsense,
}

/// Writes after which flaws that come and go do not show any more.
pub(super) const FLAWED: u64 = 500;

#[derive(Debug)]
pub(super) struct Fake {
    pub(super) flaw: Flaw,
    /// Every so many requests it closes the connection instead of answering. 0: never.
    pub(super) silent_every: u64,
    /// Every so many it refuses.
    pub(super) reluctant_every: u64,
    pub(super) knows_series: bool,
    /// Where odd slots are, if not here.
    pub(super) odd_slots_at: Option<String>,
    /// It says who has which slots: all of them are here, it believes.
    pub(super) draws_map: bool,
    pub(super) store: Arc<Mutex<Store>>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Store {
    keys: BTreeMap<Bytes, Value>,
    sessions: BTreeMap<(Bytes, Bytes), Reply>,
    before: BTreeMap<Bytes, Value>,
    pub(super) requests: u64,
    pub(super) writes: u64,
}

#[derive(Clone, Debug)]
enum Value {
    Text(Bytes),
    List(Vec<Bytes>),
}

impl Default for Fake {
    fn default() -> Self {
        Self {
            flaw: Flaw::None,
            silent_every: 0,
            reluctant_every: 0,
            knows_series: true,
            odd_slots_at: None,
            draws_map: true,
            store: Arc::default(),
        }
    }
}

impl Fake {
    /// Listens, and says where.
    pub(super) async fn start(self) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("bound").to_string();
        let (fake, here) = (Arc::new(self), address.clone());
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(talk(Arc::clone(&fake), stream, here.clone()));
            }
        });
        address
    }

    /// Nothing: close the connection.
    fn answer(&self, words: &[Bytes], here: &str) -> Option<Reply> {
        let mut store = self.store.lock().expect("tests fail elsewhere");
        match words[0].as_ref() {
            b"PING" => return Some(Reply::Simple(Bytes::from_static(b"PONG"))),
            b"CLUSTER" if !self.draws_map => return Some(Reply::Array(Vec::new())),
            b"CLUSTER" => return Some(all_slots_at(here)),
            b"SERIES" if !self.knows_series => return Some(Reply::error("ERR unknown command 'SERIES'")),
            _ => {}
        }
        let is_due = |every: u64, requests: u64| every > 0 && requests.is_multiple_of(every);
        store.requests += 1;
        if is_due(self.reluctant_every, store.requests) {
            return Some(Reply::error("TRYAGAIN nobody leads"));
        }
        let (series, command) = match words {
            [series, connection, number, rest @ ..] if series == "SERIES" => {
                (Some((connection.clone(), number.clone())), rest)
            }
            _ => (None, words),
        };
        let slot = slot_of(&command[1]).0;
        if let Some(other) = self.odd_slots_at.as_ref().filter(|_| slot % 2 == 1) {
            return Some(Reply::error_with(format!("MOVED {slot} {other}")));
        }
        let remembered = series.as_ref().and_then(|name| store.sessions.get(name).cloned());
        let reply = match remembered.filter(|_| self.flaw != Flaw::ForgetsSeries) {
            Some(reply) => reply,
            None => store.execute(self.flaw, command),
        };
        if let Some(name) = series {
            store.sessions.insert(name, reply.clone());
        }
        (!is_due(self.silent_every, store.requests)).then_some(reply)
    }
}

impl Store {
    pub(super) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    fn execute(&mut self, flaw: Flaw, command: &[Bytes]) -> Reply {
        let key = &command[1];
        let is_read = matches!(command[0].as_ref(), b"GET" | b"LRANGE");
        if !is_read {
            self.writes += 1;
            match self.writes {
                280 => self.before = self.keys.clone(),
                340 if flaw == Flaw::LosesWrites => self.keys = self.before.clone(),
                writes if writes.is_multiple_of(50) && flaw == Flaw::ReadsStale => self.before = self.keys.clone(),
                _ => {}
            }
        }
        let is_due = self.requests.is_multiple_of(7) && self.writes < FLAWED;
        let keys = if flaw == Flaw::ReadsStale && is_read && is_due { &self.before } else { &self.keys };
        match (command[0].as_ref(), keys.get(key)) {
            (b"GET", _) if flaw == Flaw::TalksNonsense && is_due => Reply::text("nonsense"),
            (b"GET", Some(Value::Text(text))) => Reply::Value(text.clone()),
            (b"GET", None) => Reply::Nil,
            (b"LRANGE", Some(Value::List(items))) => {
                let mut items = items.clone();
                if flaw == Flaw::SwapsItems && is_due && items.len() > 1 {
                    items.swap(0, 1);
                }
                Reply::values(items)
            }
            (b"LRANGE", None) => Reply::Array(vec![]),
            (b"SET", None | Some(Value::Text(_))) => {
                self.keys.insert(key.clone(), Value::Text(command[2].clone()));
                Reply::Ok
            }
            (b"DEL", _) => Reply::Number(i64::from(self.keys.remove(key).is_some())),
            (b"INCR", None | Some(Value::Text(_))) => {
                let value = keys.get(key).map_or(0, |value| match value {
                    Value::Text(text) => values::parse_number(text).expect("a counter"),
                    Value::List(_) => unreachable!("matched"),
                });
                self.keys.insert(key.clone(), Value::Text((value + 1).to_string().into()));
                Reply::Number(value + 1)
            }
            (b"RPUSH", None | Some(Value::List(_))) => {
                let list = self.keys.entry(key.clone()).or_insert_with(|| Value::List(vec![]));
                let Value::List(items) = list else { unreachable!("matched") };
                items.push(command[2].clone());
                Reply::count(items.len())
            }
            _ => Reply::error("WRONGTYPE Operation against a key holding the wrong kind of value"),
        }
    }
}

fn all_slots_at(here: &str) -> Reply {
    let (host, port) = here.rsplit_once(':').expect("an address");
    let node = vec![
        Reply::Value(Bytes::copy_from_slice(host.as_bytes())),
        Reply::Number(port.parse().expect("a port")),
        Reply::text("id"),
    ];
    Reply::Array(vec![Reply::Array(vec![Reply::Number(0), Reply::Number(16383), Reply::Array(node)])])
}

async fn talk(fake: Arc<Fake>, mut stream: TcpStream, here: String) {
    let (mut buffer, mut requests) = (BytesMut::new(), Requests::default());
    // Or the second piece of each reply would wait for the first to be acknowledged.
    stream.set_nodelay(true).expect("a socket");
    loop {
        while let Ok(Some(words)) = requests.next(&mut buffer) {
            let Some(reply) = fake.answer(&words, &here) else { return };
            let mut out = BytesMut::new();
            encode(&reply, Protocol::Resp2, &mut out);
            // In two pieces, as a network may cut it.
            let (first, second) = out.split_at(out.len() / 2);
            for piece in [first, second] {
                if stream.write_all(piece).await.is_err() || stream.flush().await.is_err() {
                    return;
                }
                tokio::task::yield_now().await;
            }
        }
        if !matches!(stream.read_buf(&mut buffer).await, Ok(1..)) {
            return;
        }
    }
}
