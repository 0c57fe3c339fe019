//! Those that are compared: found, started on loopback with the settings that a row asks for, ended again.

mod etcd;
mod family;
mod find;
mod godwit;
mod process;

use std::net::{Ipv4Addr, SocketAddr};

pub(crate) use etcd::Etcd;
pub(crate) use family::{Cluster, Log, Replicated, Single, must};
pub(crate) use find::resolve;
pub use find::{Binary, Missing, Peer, find};
pub(crate) use godwit::{Godwit, Level};
pub use process::end_everything;
pub(crate) use process::{Place, Process, kill_one, until, until_gone};

/// Servers of one kind that run together, and end when this goes.
#[derive(Debug)]
pub(crate) struct Servers {
    pub(crate) who: Peer,
    /// Where clients ask.
    pub(crate) nodes: Vec<SocketAddr>,
    /// All of them, for what the system says about them.
    pub(crate) processes: Vec<u32>,
    pub(crate) started: Vec<Process>,
}

impl Servers {
    /// All at once, as a power cut would; they are gone when this returns.
    pub(crate) fn kill(&self) {
        self.started.iter().for_each(Process::kill);
        until_gone(&self.processes);
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        self.kill();
    }
}

pub(crate) fn loopback(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}
