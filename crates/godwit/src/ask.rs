//! Asking a node over HTTP: one question, one answer, one connection.

use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use serde::de::DeserializeOwned;

const PATIENCE: Duration = Duration::from_secs(10);

/// No node that was named can be asked.
#[derive(Debug)]
pub(crate) struct Unreachable(pub(crate) String);

impl std::fmt::Display for Unreachable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Unreachable {}

/// Which node to ask.
#[derive(Args, Clone, Debug)]
pub(crate) struct At {
    /// HTTP addresses of nodes; the first that answers is asked
    #[arg(long, env = "GODWIT_AT", value_delimiter = ',', value_name = "HOST:PORT",
          default_values_t = (1..=9).map(|i| format!("127.0.0.1:{}", 7200 + i)).collect::<Vec<_>>())]
    pub(crate) at: Vec<String>,
}

impl At {
    pub(crate) fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T> {
        let text = self.ask("GET", path, "")?;
        serde_json::from_str(&text)
            .with_context(|| format!("the answer to {path} is not understood: is that node of another version?"))
    }

    pub(crate) fn post(&self, path: &str, body: &str) -> Result<String> {
        self.ask("POST", path, body)
    }

    fn ask(&self, method: &str, path: &str, body: &str) -> Result<String> {
        let (mut why, mut unable) = (Vec::new(), None);
        for address in &self.at {
            match exchange(address, method, path, body) {
                Ok((200, text)) => return Ok(text),
                Ok((503, text)) => unable = unable.or(Some(format!("{address} cannot do that now: {}", text.trim()))),
                Ok((_, text)) => bail!("{}", text.trim()),
                Err(error) => why.push(format!("{address}: {error:#}")),
            }
        }
        if let Some(unable) = unable {
            return Err(anyhow!(Unreachable(unable)));
        }
        let why = if self.at.len() > 2 { why.into_iter().take(1).chain(["…".to_owned()]).collect() } else { why };
        Err(anyhow!(Unreachable(format!(
            "no node answers ({}). Is the cluster running? 'godwit dev' starts one; --at names the HTTP address of a node of another",
            why.join("; ")
        ))))
    }
}

/// Status and body.
pub(crate) fn exchange(address: &str, method: &str, path: &str, body: &str) -> Result<(u16, String)> {
    let resolved = address.to_socket_addrs().ok().and_then(|mut all| all.next()).context("no such address")?;
    let mut stream = TcpStream::connect_timeout(&resolved, Duration::from_secs(2))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let length = body.len();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    )?;
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let (head, body) = text.split_once("\r\n\r\n").context("that is no HTTP")?;
    let status = head.split_whitespace().nth(1).and_then(|code| code.parse().ok()).context("that is no HTTP")?;
    let chunked = head.to_ascii_lowercase().contains("transfer-encoding: chunked");
    Ok((status, if chunked { unchunk(body) } else { body.to_owned() }))
}

fn unchunk(mut body: &str) -> String {
    let mut whole = String::new();
    while let Some((length, rest)) = body.split_once("\r\n") {
        let length = usize::from_str_radix(length.trim(), 16).unwrap_or(0);
        if length == 0 || rest.len() < length {
            break;
        }
        whole.push_str(&rest[..length]);
        body = rest[length..].trim_start_matches("\r\n");
    }
    whole
}
