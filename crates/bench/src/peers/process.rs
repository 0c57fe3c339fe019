//! Processes that were started here, and end with us: when nobody needs them any more, on a panic, on Ctrl-C. Nothing else is ever ended.
//!
//! Each is the first of a process group of its own, so that Ctrl-C in a terminal reaches us alone, and what it starts itself ends with
//! it. A process that has ended is asked for its exit code last of all: until then the system gives its number to nobody else.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, kill_process_group, waitid};

use crate::error::Error;
use crate::system;

const PAUSE: Duration = Duration::from_millis(5);
/// A process that was killed is gone sooner, however busy the machine is.
const PATIENCE: Duration = Duration::from_secs(20);

/// What is left to be ended, and the directories that go with it.
#[derive(Debug, Default)]
struct Left {
    groups: Vec<u32>,
    places: Vec<PathBuf>,
}

static LEFT: Mutex<Left> = Mutex::new(Left { groups: Vec::new(), places: Vec::new() });

/// A panic elsewhere is no reason to leave anything running.
fn left() -> MutexGuard<'static, Left> {
    LEFT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// For whoever is told to end at once: nothing that was started here goes on, and nothing is started any more, because the lock is kept.
pub fn end_everything() {
    let left = left();
    left.groups.iter().for_each(|group| signal_group(*group, Signal::KILL));
    for place in &left.places {
        // Whoever was just killed may still make a file.
        let _gone = (0..20).find(|_| fs::remove_dir_all(place).is_ok() || !sleep_for_a_moment());
    }
    std::mem::forget(left);
}

fn sleep_for_a_moment() -> bool {
    sleep(PAUSE);
    true
}

fn signal_group(group: u32, signal: Signal) {
    if let Some(group) = pid(group) {
        let _already_gone = kill_process_group(group, signal);
    }
}

fn pid(number: u32) -> Option<Pid> {
    i32::try_from(number).ok().and_then(Pid::from_raw)
}

#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    log: PathBuf,
}

impl Process {
    /// What it says goes to that file.
    pub(crate) fn spawn(mut command: Command, log: &Path) -> Result<Self, Error> {
        let what = || format!("{} cannot be started", command.get_program().to_string_lossy());
        let file = File::options().create(true).append(true).open(log);
        let file = file.map_err(Error::system(format!("{} cannot be written", log.display())))?;
        let again = file.try_clone().map_err(Error::system("a file"))?;
        let what = what();
        command.stdin(Stdio::null()).stdout(file).stderr(again).process_group(0);
        let mut left = left();
        let child = command.spawn().map_err(Error::system(what))?;
        left.groups.push(child.id());
        Ok(Self { child, log: log.to_owned() })
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Its exit code, if it has ended; 255 if by a signal.
    pub(crate) fn ended(&self) -> Option<i32> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let status = waitid(WaitId::Pid(pid(self.id())?), options).ok()??;
        Some(status.exit_status().unwrap_or(255))
    }

    /// The last that it said.
    pub(crate) fn last_words(&self) -> String {
        let text = fs::read_to_string(&self.log).unwrap_or_default();
        let last: Vec<&str> = text.lines().rev().take(5).collect();
        last.into_iter().rev().collect::<Vec<_>>().join("\n")
    }

    /// As a power cut would.
    pub(crate) fn kill(&self) {
        signal_group(self.id(), Signal::KILL);
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
        let mut left = left();
        let _ended = self.child.wait();
        left.groups.retain(|group| *group != self.child.id());
    }
}

/// One process of a group, by its number.
pub(crate) fn kill_one(process: u32) {
    if let Some(pid) = pid(process) {
        let _already_gone = kill_process(pid, Signal::KILL);
    }
}

pub(crate) fn until_gone(processes: &[u32]) {
    let begun = Instant::now();
    while processes.iter().any(|process| system::is_alive(*process)) && begun.elapsed() < PATIENCE {
        sleep(PAUSE);
    }
}

/// A directory of our own, which goes away with us.
#[derive(Debug)]
pub(crate) struct Place {
    path: PathBuf,
}

impl Place {
    pub(crate) fn make(path: &Path) -> Result<Self, Error> {
        left().places.push(path.to_owned());
        let _from_before = fs::remove_dir_all(path);
        fs::create_dir_all(path).map_err(Error::system(format!("{} cannot be made", path.display())))?;
        let path = path.canonicalize().map_err(Error::system("a directory that was just made"))?;
        Ok(Self { path })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _gone = fs::remove_dir_all(&self.path);
    }
}

/// Waits until it is so, or says what did not come.
pub(crate) fn until(
    what: &str,
    patience: Duration,
    mut is_so: impl FnMut() -> Result<bool, Error>,
) -> Result<(), Error> {
    let begun = Instant::now();
    while !is_so()? {
        if begun.elapsed() > patience {
            return Err(Error::Server(format!("it is not so, after {patience:?}, that {what}")));
        }
        sleep(PAUSE);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_started_ends_with_its_owner_and_takes_its_children_along() {
        let place = tempfile::tempdir().expect("a temporary directory");
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 1000 & echo $!; wait"]);
        let process = Process::spawn(command, &place.path().join("log")).expect("there is a shell");
        let child = || fs::read_to_string(place.path().join("log")).ok()?.trim().parse::<u32>().ok();
        while child().is_none() {
            sleep(PAUSE);
        }
        let child = child().expect("it said so");
        assert!(system::is_alive(child) && process.ended().is_none());
        drop(process);
        until_gone(&[child]);
        assert!(!system::is_alive(child));
    }

    #[test]
    fn an_exit_code_can_be_asked_for_twice() {
        let place = tempfile::tempdir().expect("a temporary directory");
        let mut command = Command::new("sh");
        command.args(["-c", "echo goodbye; exit 7"]);
        let process = Process::spawn(command, &place.path().join("log")).expect("there is a shell");
        while process.ended().is_none() {
            sleep(PAUSE);
        }
        assert_eq!((process.ended(), process.last_words().as_str()), (Some(7), "goodbye"));
    }
}
