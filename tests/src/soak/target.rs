//! The target: fails by status, by silence, by slowness, by broken connections, and now and then by killing who calls.

use std::sync::Arc;
use std::time::Duration;

use rand::RngExt as _;
use rand::rngs::StdRng;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::dice::{Dice, pick};
use super::history::{Answer, Call, Key};
use super::http::{Connection, Request, listen};
use super::messages::{Fate, key_in};
use super::recorder::Recorder;

/// `TARGET_TIMEOUT_SECONDS`.
pub const TIMEOUT: Duration = Duration::from_secs(2);
/// More than the functions read of an answer.
const LONG_ANSWER_BYTES: usize = 100 * 1024;
/// Of the calls of messages that would succeed.
const NOISE_PER_MILLE: u32 = 80;

/// A running target; dropping it ends it.
pub struct Target {
    url: String,
    server: JoinHandle<()>,
}

/// Kills the process of a mapping's function.
pub type Killer = Arc<dyn Fn(usize) + Send + Sync>;

/// How a call is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reply {
    Status(u16),
    Slow(u16, u64),
    RetryAfter(u16, &'static str),
    Redirect(u16),
    Long,
    /// The head of a success, and less of a body than it promises.
    Short,
    /// Half a head.
    Truncated,
    Reset,
    Hang,
    Kill,
}

impl Target {
    /// Starts it.
    pub async fn start(recorder: Arc<Recorder>, dice: Dice, kill: Killer) -> Self {
        let serve = move |connection| serve(Arc::clone(&recorder), dice, Arc::clone(&kill), connection);
        let (address, server) = listen(serve).await;
        Self { url: format!("http://{address}"), server }
    }

    /// `TARGET` for the function of a mapping.
    #[must_use]
    pub fn url_for(&self, mapping: usize) -> String {
        format!("{}/target/{mapping}", self.url)
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn serve(recorder: Arc<Recorder>, dice: Dice, kill: Killer, mut connection: Connection) {
    while let Some(request) = connection.next().await {
        let _under_way = recorder.under_way();
        match answer(&recorder, dice, &kill, &request, connection).await {
            Some(kept) => connection = kept,
            None => return,
        }
    }
}

async fn answer(
    recorder: &Recorder,
    dice: Dice,
    kill: &Killer,
    request: &Request,
    mut connection: Connection,
) -> Option<Connection> {
    let body = String::from_utf8_lossy(&request.body).into_owned();
    let mapping = request.path.strip_prefix("/target/").and_then(|mapping| mapping.parse::<usize>().ok());
    let (Some(mapping), Some(key)) = (mapping, key_in(&body)) else {
        recorder.trouble(format!("a call of {} that nobody was told to make", request.path));
        return None;
    };
    let Some(invocation) = recorder.batch_with(mapping, key) else {
        recorder.trouble(format!("a call for message {key}, which the caller was not given"));
        return None;
    };
    let reply = reply(recorder, dice, key, request.header("x-redeliver-attempt"));
    let call = |answer| Call {
        invocation,
        key,
        idempotency_key: request.header("idempotency-key").to_owned(),
        attempt: request.header("x-redeliver-attempt").to_owned(),
        body: body.clone(),
        answer,
    };
    let verdict = |status: u16| match status {
        200..=299 => Answer::Success,
        301 | 302 | 307 | 308 | 401 | 403 | 408 | 409 | 425 | 429 | 500.. => Answer::Transient,
        _ => Answer::Permanent,
    };
    let (answer, kept) = match reply {
        Reply::Status(status) => {
            let written = connection.answer(status, &[], b"told").await;
            (verdict(status), written.then_some(connection))
        }
        Reply::Slow(status, millis) => {
            sleep(Duration::from_millis(millis)).await;
            // A 204 has no body.
            let body = if status == 204 { &b""[..] } else { b"told slowly" };
            let written = connection.answer(status, &[], body).await;
            (if written { verdict(status) } else { Answer::Nothing }, written.then_some(connection))
        }
        Reply::RetryAfter(status, value) => {
            let written = connection.answer(status, &[("Retry-After", value)], b"").await;
            (verdict(status), written.then_some(connection))
        }
        Reply::Redirect(status) => {
            let written = connection.answer(status, &[("Location", "/elsewhere")], b"").await;
            (verdict(status), written.then_some(connection))
        }
        Reply::Long => {
            // The client may have read enough before the end.
            connection.answer(200, &[], &vec![b'x'; LONG_ANSWER_BYTES]).await;
            (Answer::Success, None)
        }
        Reply::Short => {
            connection.answer_short(200, b"less than promised").await;
            (Answer::Success, None)
        }
        Reply::Truncated => {
            connection.answer_truncated(200, b"", 12).await;
            (Answer::Nothing, None)
        }
        Reply::Reset => {
            connection.reset();
            (Answer::Nothing, None)
        }
        Reply::Hang => {
            recorder.called(call(Answer::Nothing));
            connection.hang(TIMEOUT * 3 / 2).await;
            return None;
        }
        Reply::Kill => {
            recorder.called(call(Answer::Nothing));
            kill(mapping);
            connection.hang(TIMEOUT * 3 / 2).await;
            return None;
        }
    };
    recorder.called(call(answer));
    kept
}

fn reply(recorder: &Recorder, dice: Dice, key: Key, attempt: &str) -> Reply {
    let calls = recorder.calls_of(key);
    let mut dice = dice.roll(("reply", key, calls));
    let burns = recorder.burns();
    let fate = recorder.fate(key);
    let noise = burns && dice.random_range(0..1000) < NOISE_PER_MILLE;
    match fate {
        Some(Fate::Doomed | Fate::Expired | Fate::Oversize) => transient(&mut dice, burns),
        Some(Fate::Flaky(failures)) if attempt.parse().is_ok_and(|attempt: u32| attempt < failures) => {
            transient(&mut dice, burns)
        }
        Some(Fate::Crasher(deaths)) if calls < deaths => Reply::Kill,
        _ if noise => transient(&mut dice, burns),
        Some(Fate::Refused) => permanent(&mut dice),
        Some(Fate::Healthy | Fate::Flaky(_) | Fate::Crasher(_)) => success(&mut dice, burns),
        // Nobody should ask.
        Some(Fate::Malformed | Fate::Invalid) | None => Reply::Status(200),
    }
}

fn success(dice: &mut StdRng, burns: bool) -> Reply {
    let (status, millis) = (pick(dice, &[(8, 200), (1, 201), (1, 204)]), dice.random_range(20..800));
    let short =
        [(80, Reply::Status(200)), (15, Reply::Slow(status, millis)), (2, Reply::Long), (3, Reply::Short)];
    if burns { pick(dice, &short) } else { Reply::Status(200) }
}

fn permanent(dice: &mut StdRng) -> Reply {
    Reply::Status(pick(dice, &[(1, 400), (1, 404), (1, 405), (1, 410), (1, 422)]))
}

fn transient(dice: &mut StdRng, burns: bool) -> Reply {
    let statuses = [401, 403, 408, 409, 425, 429, 500, 502, 503, 504].map(|status| (1, status));
    let (status, millis) = (pick(dice, &statuses), dice.random_range(20..800));
    let redirect = pick(dice, &[(1, 301), (1, 302), (1, 307), (1, 308)]);
    let replies = [
        (45, Reply::Status(status)),
        (10, Reply::Redirect(redirect)),
        (8, Reply::RetryAfter(status, "1")),
        (4, Reply::RetryAfter(503, "Sun, 06 Nov 1994 08:49:37 GMT")),
        (10, Reply::Slow(status, millis)),
        (8, Reply::Reset),
        (6, Reply::Truncated),
        (6, Reply::Hang),
    ];
    if burns { pick(dice, &replies) } else { Reply::Status(status) }
}

#[cfg(test)]
mod tests;
