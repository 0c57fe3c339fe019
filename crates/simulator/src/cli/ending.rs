//! How it ended, and the exit code that says so.

use std::process::ExitCode;

use simulator::world::Failure;

pub(super) const HELP: &str = "\
Exit codes:
   0  all is well
   1  it could not do its work (a file that cannot be written)
   2  the command line makes no sense
  10  what clients saw could not have happened (linearizable, list_order, counter, exactly_once,
      no_acknowledged_write_lost; also history, undecided)
  11  the states of several nodes do not fit together (every other checker)
  12  liveness: the world healed (or was whole all along), and something still waits
  13  an assertion failed
  14  determinism: one seed gave two traces
  15  a sabotage was not noticed
  16  explore found a violation
When seeds fail in several ways it is the lowest of their codes.";

/// The worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Ending {
    History = 10,
    State = 11,
    Liveness = 12,
    Assertion = 13,
    Determinism = 14,
    Missed = 15,
    Explore = 16,
    Well = 0x100,
}

impl Ending {
    pub(super) fn of<'a>(failures: impl IntoIterator<Item = &'a Failure>) -> Self {
        failures.into_iter().map(|failure| Self::of_checker(failure.checker)).min().unwrap_or(Self::Well)
    }

    fn of_checker(checker: &str) -> Self {
        match checker {
            "linearizable"
            | "list_order"
            | "counter"
            | "exactly_once"
            | "no_acknowledged_write_lost"
            | "history"
            | "undecided" => Self::History,
            "liveness" | "moves_end" => Self::Liveness,
            "assertion" => Self::Assertion,
            "determinism" => Self::Determinism,
            _ => Self::State,
        }
    }

    fn code(self) -> u8 {
        match self {
            Self::Well => 0,
            other => other as u8,
        }
    }
}

impl From<Ending> for ExitCode {
    fn from(ending: Ending) -> Self {
        Self::from(ending.code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(checkers: &[&'static str]) -> u8 {
        let failures: Vec<Failure> = checkers.iter().map(|checker| Failure { checker, text: String::new() }).collect();
        Ending::of(&failures).code()
    }

    #[test]
    fn each_kind_of_failure_has_its_code() {
        assert_eq!(code(&[]), 0);
        assert_eq!(code(&["linearizable"]), 10);
        assert_eq!(code(&["undecided"]), 10);
        assert_eq!(code(&["states_identical"]), 11);
        assert_eq!(code(&["liveness"]), 12);
        assert_eq!(code(&["assertion"]), 13);
        assert_eq!(code(&["determinism"]), 14);
        assert_eq!([Ending::Missed, Ending::Explore].map(Ending::code), [15, 16]);
    }

    #[test]
    fn the_worst_counts() {
        assert_eq!(code(&["assertion", "counter", "liveness"]), 10);
        assert_eq!(code(&["assertion", "one_serving_primary"]), 11);
    }

    #[test]
    fn every_code_is_explained() {
        for code in ["  0", "  1", "  2", " 10", " 11", " 12", " 13", " 14", " 15", " 16"] {
            assert!(HELP.lines().any(|line| line.starts_with(&format!(" {code}  "))), "{code}");
        }
    }
}
