//! What is sent: requests that are built once, of which only the number of the key is written anew each time.

use super::http::base64;
use super::keys::{DIGITS, write_digits};

/// What each operation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mix {
    Set,
    Get,
    /// Four reads to one write.
    Mixed,
    Incr,
    /// A write, and in the same breath the question whether so many replicas have it.
    SetWait {
        copies: u8,
    },
    /// The same, on the disks of the primary and so many replicas.
    SetWaitAof {
        copies: u8,
    },
    Lpush,
    Rpop,
    Hset,
    Zadd,
    /// A put over etcd's JSON gateway.
    EtcdPut,
}

impl Mix {
    pub fn by_name(name: &str) -> Option<Self> {
        Some(match name {
            "set" => Mix::Set,
            "get" => Mix::Get,
            "mixed" => Mix::Mixed,
            "incr" => Mix::Incr,
            "set-wait" => Mix::SetWait { copies: 2 },
            "set-waitaof" => Mix::SetWaitAof { copies: 2 },
            "lpush" => Mix::Lpush,
            "rpop" => Mix::Rpop,
            "hset" => Mix::Hset,
            "zadd" => Mix::Zadd,
            "etcd-put" => Mix::EtcdPut,
            _ => return None,
        })
    }

    pub const NAMES: [&str; 11] =
        ["set", "get", "mixed", "incr", "set-wait", "set-waitaof", "lpush", "rpop", "hset", "zadd", "etcd-put"];

    /// Replies to one operation.
    pub(crate) fn replies(self) -> u32 {
        if matches!(self, Mix::SetWait { .. } | Mix::SetWaitAof { .. }) { 2 } else { 1 }
    }

    /// What the keys begin with: of one kind each, so that nobody counts up what another has set.
    pub(crate) fn prefix(self) -> &'static str {
        match self {
            Mix::Set | Mix::Get | Mix::Mixed | Mix::SetWait { .. } | Mix::SetWaitAof { .. } | Mix::EtcdPut => "key:",
            Mix::Incr => "num:",
            Mix::Lpush | Mix::Rpop => "lst:",
            Mix::Hset => "hsh:",
            Mix::Zadd => "zst:",
        }
    }
}

/// One request of which only the key's number changes.
#[derive(Clone, Debug)]
struct Template {
    bytes: Vec<u8>,
    number: Number,
}

#[derive(Clone, Copy, Debug)]
enum Number {
    /// These are its digits.
    At(usize),
    /// The whole key stands there in base 64.
    Coded(usize),
}

/// Requests that go out in one write, built in one place for all connections: it stays in the nearest cache.
#[derive(Debug)]
pub(crate) struct Batch {
    write: Template,
    read: Option<Template>,
    bytes: Vec<u8>,
    coded: Vec<u8>,
}

impl Batch {
    pub(crate) fn new(mix: Mix, value_bytes: usize, pipeline: usize) -> Self {
        let (write, read) = templates(mix, value_bytes);
        let bytes = if read.is_none() { write.bytes.repeat(pipeline) } else { Vec::new() };
        Self { write, read, bytes, coded: Vec::new() }
    }

    /// So many operations, at most as many as the pipeline is deep, on keys that `next` names. `dice`: some number at random.
    pub(crate) fn fill(&mut self, count: usize, mut next: impl FnMut() -> u32, mut dice: u64) -> &[u8] {
        let Some(read) = &self.read else {
            let length = self.write.bytes.len();
            for request in self.bytes.chunks_exact_mut(length).take(count) {
                put_number(request, self.write.number, next(), &mut self.coded);
            }
            return &self.bytes[..count * length];
        };
        self.bytes.clear();
        for _ in 0..count {
            let template = if dice.is_multiple_of(5) { &self.write } else { read };
            dice = dice.rotate_left(11).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 3;
            let from = self.bytes.len();
            self.bytes.extend_from_slice(&template.bytes);
            put_number(&mut self.bytes[from..], template.number, next(), &mut self.coded);
        }
        &self.bytes
    }
}

fn put_number(request: &mut [u8], number: Number, key: u32, coded: &mut Vec<u8>) {
    match number {
        Number::At(at) => write_digits(key, &mut request[at..at + DIGITS]),
        Number::Coded(at) => {
            coded.clear();
            base64(etcd_key(key).as_bytes(), coded);
            request[at..at + coded.len()].copy_from_slice(coded);
        }
    }
}

/// The one that writes, and the one that reads if there are both; a mix that only reads has one, too.
fn templates(mix: Mix, value_bytes: usize) -> (Template, Option<Template>) {
    let value = "v".repeat(value_bytes);
    let key = format!("{}{}", mix.prefix(), "0".repeat(DIGITS));
    let set: &[&str] = &["SET", &key, &value];
    match mix {
        Mix::Set => (resp(&[set]), None),
        Mix::Get => (resp(&[&["GET", &key]]), None),
        Mix::Mixed => (resp(&[set]), Some(resp(&[&["GET", &key]]))),
        Mix::Incr => (resp(&[&["INCR", &key]]), None),
        Mix::SetWait { copies } => (resp(&[set, &["WAIT", &copies.to_string(), "0"]]), None),
        Mix::SetWaitAof { copies } => (resp(&[set, &["WAITAOF", "1", &copies.to_string(), "0"]]), None),
        Mix::Lpush => (resp(&[&["LPUSH", &key, &value]]), None),
        Mix::Rpop => (resp(&[&["RPOP", &key]]), None),
        Mix::Hset => (resp(&[&["HSET", &key, "field", &value]]), None),
        Mix::Zadd => (resp(&[&["ZADD", &key, "1", &value]]), None),
        Mix::EtcdPut => (etcd_put(&value), None),
    }
}

fn resp(commands: &[&[&str]]) -> Template {
    let (mut text, mut number) = (String::new(), None);
    for words in commands {
        text += &format!("*{}\r\n", words.len());
        for (place, word) in words.iter().enumerate() {
            text += &format!("${}\r\n", word.len());
            if place == 1 && number.is_none() {
                number = Some(text.len() + word.len() - DIGITS);
            }
            text += &format!("{word}\r\n");
        }
    }
    Template { bytes: text.into_bytes(), number: Number::At(number.expect("the first command has a key")) }
}

/// As long as whole groups of three bytes are, so that its code has always the same length.
fn etcd_key(number: u32) -> String {
    format!("key:{number:014}")
}

fn etcd_put(value: &str) -> Template {
    let (mut key, mut coded) = (Vec::new(), Vec::new());
    base64(etcd_key(0).as_bytes(), &mut key);
    base64(value.as_bytes(), &mut coded);
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("letters and digits");
    let (before, after) = ("{\"key\":\"", format!("\",\"value\":\"{}\"}}", text(coded)));
    let key = text(key);
    let head = format!(
        "POST /v3/kv/put HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        before.len() + key.len() + after.len()
    );
    let at = head.len() + before.len();
    Template { bytes: format!("{head}{before}{key}{after}").into_bytes(), number: Number::Coded(at) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(batch: &mut Batch, keys: &[u32]) -> String {
        let mut next = keys.iter().copied();
        String::from_utf8(batch.fill(keys.len(), || next.next().expect("enough of them"), 1).to_vec()).expect("text")
    }

    #[test]
    fn only_the_number_changes() {
        let mut batch = Batch::new(Mix::Set, 3, 2);
        let expected = "*3\r\n$3\r\nSET\r\n$16\r\nkey:000000000007\r\n$3\r\nvvv\r\n*3\r\n$3\r\nSET\r\n$16\r\nkey:004294967295\r\n$3\r\nvvv\r\n";
        assert_eq!(text(&mut batch, &[7, u32::MAX]), expected);
        assert_eq!(text(&mut batch, &[7, 8]), expected.replace("004294967295", "000000000008"));
    }

    #[test]
    fn a_write_and_its_wait_are_one_operation() {
        let mut batch = Batch::new(Mix::SetWait { copies: 2 }, 1, 1);
        let expected =
            "*3\r\n$3\r\nSET\r\n$16\r\nkey:000000000001\r\n$1\r\nv\r\n*3\r\n$4\r\nWAIT\r\n$1\r\n2\r\n$1\r\n0\r\n";
        assert_eq!(text(&mut batch, &[1]), expected);
    }

    #[test]
    fn a_fifth_of_a_mix_writes() {
        let mut batch = Batch::new(Mix::Mixed, 1, 100);
        let (mut writes, mut dice) = (0, 1u64);
        for _ in 0..100 {
            dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let bytes = batch.fill(100, || 1, dice >> 7);
            writes += bytes.windows(3).filter(|word| word == b"SET").count();
        }
        assert!((1700..2300).contains(&writes), "{writes} of 10000");
    }

    #[test]
    fn puts_for_etcd() {
        let mut batch = Batch::new(Mix::EtcdPut, 3, 1);
        let sent = text(&mut batch, &[12]);
        let (head, body) = sent.split_once("\r\n\r\n").expect("a head and a body");
        assert!(head.contains(&format!("Content-Length: {}", body.len())), "{head}");
        assert_eq!(body, "{\"key\":\"a2V5OjAwMDAwMDAwMDAwMDEy\",\"value\":\"dnZ2\"}");
    }

    #[test]
    fn every_name_is_known() {
        assert!(Mix::NAMES.iter().all(|name| Mix::by_name(name).is_some()));
        assert_eq!(Mix::by_name("sett"), None);
    }
}
