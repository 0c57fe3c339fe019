//! The event log of a world: a running hash always, readable lines when somebody wants to read them.

use std::fmt::{self, Write};

use blueprint::BucketId;
use node::{Input, Mail, Output, PeerMessage, Station};

use crate::chronicle::Chronicle;

#[derive(Clone, Debug, Default)]
pub struct Trace {
    hash: u64,
    eye: Eye,
    pub lines: Vec<String>,
    pub chronicle: Option<Box<Chronicle>>,
}

/// How closely somebody looks.
#[derive(Clone, Debug, Default)]
enum Eye {
    /// The hash has times, nodes and the shape of messages: cheap enough to be always on.
    #[default]
    Glance,
    /// The hash has every byte of everything that happens.
    Scrutiny,
    Reading(Wanted),
}

/// What to keep of it; nothing given means everything.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    pub host: Option<usize>,
    pub bucket: Option<u64>,
}

impl Trace {
    /// Only the hash.
    pub fn silent() -> Self {
        Self::default()
    }

    /// Only the hash, but of every byte.
    pub fn scrutinised() -> Self {
        Self { eye: Eye::Scrutiny, ..Self::default() }
    }

    pub fn keeping(wanted: Wanted) -> Self {
        Self { eye: Eye::Reading(wanted), ..Self::default() }
    }

    /// No lines, but the life of that bucket.
    pub fn asking_why(bucket: BucketId) -> Self {
        Self { chronicle: Some(Box::new(Chronicle::of(bucket))), ..Self::default() }
    }

    pub fn hash(&self) -> u64 {
        self.hash
    }

    fn mix(&mut self, value: u64) {
        self.hash = (self.hash ^ value).wrapping_mul(0x0100_0000_01b3).rotate_left(23);
    }

    pub fn input(&mut self, time: u64, host: usize, station: Station, input: &Input) {
        self.mix(time);
        self.mix(place(host, station));
        if let Input::Peer { message: PeerMessage::Bucket { bucket, envelope }, .. } = input {
            self.mix(bucket.0 ^ (envelope.message.term().0 << 32) ^ (envelope.message.name().len() as u64));
        }
        self.scrutinise(format_args!("{input:?}"));
        if self.is_read() {
            let bucket = match input {
                Input::Peer { message: PeerMessage::Bucket { bucket, .. }, .. } => Some(bucket.0),
                _ => None,
            };
            let text = match input {
                Input::Peer { from, message } => format!("<- {from} {}", peer(message)),
                Input::Blueprint(blueprint) => format!("<- blueprint {}", blueprint.epoch),
                Input::MetaRead { id, state } => format!("<- meta read {id}: {}", state.blueprint.epoch),
                Input::Flush
                | Input::Wake
                | Input::Wall { .. }
                | Input::LeadsMeta(_)
                | Input::Leave
                | Input::Disk { .. } => return,
                Input::Mail { mail: Mail::Directory(_) | Mail::Beat | Mail::Rows(_), .. } => return,
                Input::Mail { mail: Mail::Blueprint(blueprint), .. } => format!("<- desk {}", blueprint.epoch),
                Input::Mail { from, mail: Mail::Acted(blueprint) } => {
                    format!("<- {from:?} acts on {}", blueprint.epoch)
                }
                other => format!("<- {other:?}"),
            };
            self.keep(time, host, bucket, &text);
        }
    }

    pub fn output(&mut self, time: u64, host: usize, station: Station, output: &Output) {
        self.mix(time ^ 0x55);
        self.mix(place(host, station));
        if let Output::Send { to, message: PeerMessage::Bucket { bucket, envelope } } = output {
            self.mix(
                to.0 ^ (bucket.0 << 8) ^ (envelope.message.term().0 << 32) ^ (envelope.message.name().len() as u64),
            );
        }
        self.scrutinise(format_args!("{output:?}"));
        if self.is_read() {
            let (bucket, text) = match output {
                Output::Send { to, message } => {
                    let bucket = match message {
                        PeerMessage::Bucket { bucket, .. } => Some(bucket.0),
                        PeerMessage::Hop { .. }
                        | PeerMessage::HopAnswer { .. }
                        | PeerMessage::Probe { .. }
                        | PeerMessage::Probed { .. }
                        | PeerMessage::Push(_)
                        | PeerMessage::Echoed(_)
                        | PeerMessage::Order(_)
                        | PeerMessage::Directory(_) => None,
                    };
                    (bucket, format!("-> {to} {}", peer(message)))
                }
                Output::Event { bucket, event } => (Some(bucket.0), format!("** {event:?}")),
                Output::Write { .. } | Output::Store { .. } | Output::Release { .. } | Output::Mail { .. } => {
                    return;
                }
                other => (None, format!("-> {other:?}")),
            };
            self.keep(time, host, bucket, &text);
        }
    }

    /// `usize::MAX` is the meta group.
    pub fn line(&mut self, time: u64, host: usize, text: impl FnOnce() -> String) {
        self.mix(time ^ 0xaa);
        if let Some(chronicle) = &mut self.chronicle {
            return chronicle.on_line(time, host, &text());
        }
        match self.eye {
            Eye::Glance => {}
            Eye::Scrutiny => self.scrutinise(format_args!("{}", text())),
            Eye::Reading(_) => self.keep(time, host, None, &text()),
        }
    }

    fn is_read(&self) -> bool {
        matches!(self.eye, Eye::Reading(_))
    }

    fn scrutinise(&mut self, everything: fmt::Arguments<'_>) {
        if matches!(self.eye, Eye::Scrutiny) {
            Bytes(self).write_fmt(everything).expect("a hash takes anything");
        }
    }

    fn keep(&mut self, time: u64, host: usize, bucket: Option<u64>, text: &str) {
        let Eye::Reading(wanted) = &self.eye else { return };
        let other_host = host != usize::MAX && wanted.host.is_some_and(|h| h != host);
        let other_bucket = wanted.bucket.is_some() && bucket.is_some() && bucket != wanted.bucket;
        if other_host || other_bucket {
            return;
        }
        let who = if host == usize::MAX { "meta".into() } else { format!("h{}", host + 1) };
        self.lines.push(format!("{:>10.6} {who:>5} {text}", time as f64 / 1e6));
    }
}

/// Text that goes into the hash and nowhere else.
struct Bytes<'a>(&'a mut Trace);

impl Write for Bytes<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        text.bytes().for_each(|byte| self.0.mix(u64::from(byte)));
        Ok(())
    }
}

fn peer(message: &PeerMessage) -> String {
    match message {
        PeerMessage::Bucket { bucket, envelope } => {
            let text = match &envelope.message {
                phaser::Message::Prepare { term, previous, entries, commit, .. } => {
                    let last = entries.last().map_or(String::from("-"), |e| e.at.to_string());
                    format!("Prepare {term} after {previous} to {last} commit {commit}")
                }
                phaser::Message::Fill { term, image } => format!("Fill {term} as of {} {}", image.as_of, image.covered),
                other => format!("{other:?}"),
            };
            format!("{bucket} {}->{} {text}", envelope.from, envelope.to)
        }
        PeerMessage::Push(blueprint) => format!("Push {}", blueprint.epoch),
        other => format!("{other:?}"),
    }
}

fn place(host: usize, station: Station) -> u64 {
    let station = match station {
        Station::Desk => 0,
        Station::Lane(number) => 1 + u64::from(number),
    };
    host as u64 | station << 32
}
