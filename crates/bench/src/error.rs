//! What kept a comparison from being made. What a server answers is a result, and none of these.

use std::io;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{what}: {error}")]
    System { what: String, error: io::Error },
    /// A server did not do what it must do before anything can be measured.
    #[error("{0}")]
    Server(String),
    #[error("it was interrupted")]
    Interrupted,
}

impl Error {
    pub(crate) fn system(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |error| Error::System { what, error }
    }
}
