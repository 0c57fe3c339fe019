//! Connections of HTTP clients: how many there may be, and how long each may take to say something.
//!
//! Whoever holds on to a connection and says nothing, or half of something, costs a file and some memory, and must not keep those out who want to
//! know how the cluster is. So a request comes whole within a time and a size, or its connection ends; and when there is no room for one more,
//! whoever has said nothing for the longest goes.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::rc::Rc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{Request, StatusCode, header};
use axum::response::IntoResponse;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::spawn_local;
use tokio::time::{sleep, timeout};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Connections at once. They take from the files that are not for clients of Redis (`start.rs`).
    pub(crate) connections: usize,
    /// In which the first line and the headers of a request come, counted from when the one before was answered; and then its body.
    pub(crate) patience: Duration,
    /// Bytes of the first line and the headers: several times what a browser sends.
    pub(crate) head: usize,
    /// Bytes of a body: nothing that is asked of a node is larger.
    pub(crate) body: usize,
}

impl Limits {
    pub(crate) const USUAL: Self =
        Self { connections: 128, patience: Duration::from_secs(10), head: 32 << 10, body: 64 << 10 };
}

/// Those who are connected, in the order in which they came.
#[derive(Default)]
struct Guests {
    all: RefCell<BTreeMap<u64, Rc<Guest>>>,
    next: Cell<u64>,
}

#[derive(Default)]
struct Guest {
    /// A whole request of its is being answered.
    is_served: Cell<bool>,
    asked_to_leave: Notify,
}

impl Guests {
    /// None: all who are here are being served.
    fn let_in(&self, most: usize) -> Option<(u64, Rc<Guest>)> {
        let mut all = self.all.borrow_mut();
        if all.len() >= most {
            let (idle, _) = all.iter().find(|(_, guest)| !guest.is_served.get())?;
            let idle = *idle;
            all.remove(&idle).expect("just found").asked_to_leave.notify_one();
        }
        self.next.set(self.next.get() + 1);
        let guest = Rc::new(Guest::default());
        all.insert(self.next.get(), Rc::clone(&guest));
        Some((self.next.get(), guest))
    }
}

pub(crate) async fn serve(listener: TcpListener, routes: Router, limits: Limits) {
    let guests = Rc::new(Guests::default());
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "an HTTP client could not be let in");
                sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        let Some((id, guest)) = guests.let_in(limits.connections) else {
            let _gone = stream.try_write(FULL);
            continue;
        };
        let (guests, routes) = (Rc::clone(&guests), routes.clone());
        spawn_local(async move {
            tokio::select! {
                () = attend(stream, routes, limits, &guest) => {}
                () = guest.asked_to_leave.notified() => {}
            }
            guests.all.borrow_mut().remove(&id);
        });
    }
}

/// For whoever comes while all that there may be are being served.
const FULL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Length: 31\r\n\r\n\
    too many connections: ask later";

async fn attend(stream: TcpStream, routes: Router, limits: Limits, guest: &Guest) {
    let answer = service_fn(|request| async {
        let response = match whole(request, limits).await {
            Ok(request) => {
                guest.is_served.set(true);
                let Ok(response) = TowerToHyperService::new(routes.clone()).call(request).await;
                response
            }
            Err((code, why)) => (code, [(header::CONNECTION, "close")], why).into_response(),
        };
        guest.is_served.set(false);
        Ok::<_, Infallible>(response)
    });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(limits.patience).max_buf_size(limits.head);
    // However it ended, it was the client who did, or one of the limits.
    let _ended = builder.serve_connection(TokioIo::new(stream), answer).await;
}

/// The request with all of its body; or why it is not waited for.
async fn whole(request: Request<Incoming>, limits: Limits) -> Result<Request<Body>, (StatusCode, String)> {
    let (head, body) = request.into_parts();
    match timeout(limits.patience, to_bytes(Body::new(body), limits.body)).await {
        Ok(Ok(body)) => Ok(Request::from_parts(head, Body::from(body))),
        // Or it broke off, and then nobody hears this.
        Ok(Err(_)) => {
            Err((StatusCode::PAYLOAD_TOO_LARGE, format!("a body of at most {} bytes is read\n", limits.body)))
        }
        Err(_) => {
            let seconds = limits.patience.as_secs_f64();
            Err((StatusCode::REQUEST_TIMEOUT, format!("the body did not come within {seconds} seconds\n")))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::sync::Arc;

    use axum::routing::{get, post};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::task::LocalSet;

    use super::*;

    /// Longer than anything takes here, except what never ends.
    const FOR_EVER: Duration = Duration::from_secs(60);

    async fn with(limits: Limits, routes: Router, test: impl AsyncFnOnce(SocketAddr)) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("bound");
        let local = LocalSet::new();
        local.spawn_local(serve(listener, routes, limits));
        local.run_until(test(address)).await;
    }

    async fn say(address: SocketAddr, words: &[u8]) -> TcpStream {
        let mut stream = TcpStream::connect(address).await.expect("it listens");
        stream.write_all(words).await.expect("it listens");
        stream
    }

    /// What it says until it hangs up.
    async fn hear(mut stream: TcpStream) -> String {
        let mut heard = Vec::new();
        // Reset, if it was still being told something.
        let _cut = timeout(FOR_EVER, stream.read_to_end(&mut heard)).await.expect("cut off some time");
        String::from_utf8_lossy(&heard).into_owned()
    }

    fn impatient() -> Limits {
        Limits { patience: Duration::from_millis(50), ..Limits::USUAL }
    }

    fn echo() -> Router {
        Router::new().route("/", get(|| async { "here" })).route("/echo", post(|body: String| async { body }))
    }

    #[tokio::test]
    async fn who_sends_half_a_request_is_cut_off() {
        with(impatient(), echo(), async |address| {
            for half in [&b""[..], b"GE", b"GET / HTTP/1.1\r\nHost: x\r\n", b"GET / HTTP/1.1\r\nHost: x\r\nX-Long: "] {
                assert_eq!(hear(say(address, half).await).await, "");
            }
            let half = b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nnot a hundred";
            let heard = hear(say(address, half).await).await;
            assert!(heard.starts_with("HTTP/1.1 408 ") && heard.contains("did not come within 0.05 s"), "{heard}");
        })
        .await;
    }

    /// However little each of them is.
    #[tokio::test]
    async fn who_sends_pieces_for_ever_is_cut_off() {
        with(impatient(), echo(), async |address| {
            let heads = ["GET / HTTP/1.1\r\n", "POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"];
            for (head, piece) in heads.into_iter().zip([&b"X: y\r\n"[..], b"1\r\nx\r\n"]) {
                let mut stream = say(address, head.as_bytes()).await;
                let dribble = async {
                    while stream.write_all(piece).await.is_ok() {
                        sleep(Duration::from_millis(1)).await;
                    }
                };
                timeout(FOR_EVER, dribble).await.expect("nobody listens any more");
            }
        })
        .await;
    }

    #[tokio::test]
    async fn what_is_too_long_is_refused() {
        let limits = Limits { body: 10, ..Limits::USUAL };
        with(limits, echo(), async |address| {
            let post = |body: &str| {
                let length = body.len();
                format!("POST /echo HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}")
            };
            let heard = hear(say(address, post("0123456789").as_bytes()).await).await;
            assert!(heard.starts_with("HTTP/1.1 200 ") && heard.ends_with("0123456789"), "{heard}");
            let heard = hear(say(address, post("0123456789!").as_bytes()).await).await;
            assert!(heard.starts_with("HTTP/1.1 413 ") && heard.contains("at most 10 bytes"), "{heard}");
            let head = format!("GET / HTTP/1.1\r\nX: {}", "x".repeat(limits.head));
            let heard = hear(say(address, head.as_bytes()).await).await;
            assert!(heard.starts_with("HTTP/1.1 431 "), "{heard}");
        })
        .await;
    }

    #[tokio::test]
    async fn one_connection_serves_one_request_after_the_other() {
        with(Limits::USUAL, echo(), async |address| {
            let ask = b"GET / HTTP/1.1\r\nHost: x\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
            let heard = hear(say(address, ask).await).await;
            assert_eq!(heard.matches("here").count(), 2, "{heard}");
        })
        .await;
    }

    #[tokio::test]
    async fn who_says_nothing_makes_room_and_who_is_served_does_not() {
        let (begun, end) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let slow = {
            let (begun, end) = (Arc::clone(&begun), Arc::clone(&end));
            move || async move {
                begun.notify_one();
                end.notified().await;
                "slow"
            }
        };
        let routes = echo().route("/slow", get(slow));
        with(Limits { connections: 2, ..Limits::USUAL }, routes, async |address| {
            let slow = b"GET /slow HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
            let served = say(address, slow).await;
            begun.notified().await;
            let idle = say(address, b"GET / HT").await;
            // Somebody comes, and there is room.
            let other = say(address, slow).await;
            begun.notified().await;
            assert_eq!(hear(idle).await, "", "the one who said nothing went");
            let refused = hear(say(address, b"").await).await;
            assert!(refused.starts_with("HTTP/1.1 503 ") && refused.ends_with("ask later"), "{refused}");
            let length = FULL.windows(4).position(|w| w == b"\r\n\r\n").map(|at| FULL.len() - at - 4);
            assert!(refused.contains(&format!("Content-Length: {}", length.expect("a head and a body"))));
            for stream in [served, other] {
                end.notify_one();
                assert!(hear(stream).await.ends_with("slow"));
            }
            let heard = hear(say(address, b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await).await;
            assert!(heard.ends_with("here"), "{heard}");
        })
        .await;
    }
}
