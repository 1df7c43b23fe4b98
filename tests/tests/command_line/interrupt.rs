//! Ctrl-C while `redeliver local` runs in virtual time.

use std::io::{BufRead as _, BufReader, Read as _};
use std::net::{Shutdown, TcpListener, TcpStream};

use super::*;

/// A run over a large file or against a slow endpoint takes minutes of real time, so its results so far must not be
/// lost.
#[test]
fn an_interrupted_run_in_virtual_time_ends_with_its_report() {
    interrupt_during_a_call(InterruptedRun::new("interrupt-one.jsonl", 1, 1, 0)).unwrap();
}

#[test]
fn unread_input_does_not_delay_an_interrupt() {
    interrupt_during_a_call(InterruptedRun::new("interrupt-many.jsonl", 10_001, 10_000, 0)).unwrap();
}

#[test]
fn an_interrupted_run_reports_its_actual_duration() {
    interrupt_during_a_call(InterruptedRun::new("interrupt-retry.jsonl", 1, 1, 1)).unwrap();
}

/// The first message finishes in the first second; the second is interrupted a minute later.
#[test]
fn an_interrupted_run_ends_after_its_last_result() {
    interrupt_during_a_call(InterruptedRun {
        handled: 1,
        ..InterruptedRun::new("interrupt-two.jsonl", 2, 2, 1)
    })
    .unwrap();
}

#[test]
fn an_interrupted_run_that_settles_everything_counts_as_complete() {
    interrupt_during_a_call(InterruptedRun {
        last_is_handled: true,
        ..InterruptedRun::new("interrupt-last.jsonl", 1, 1, 1)
    })
    .unwrap();
}

struct InterruptedRun {
    /// The name of the messages file.
    name: &'static str,
    lines: u32,
    /// The number of messages in the source queue before the target answers its first call.
    sent: u32,
    /// The number of failed calls before the interrupted one. Each takes a minute.
    failed_calls: u32,
    /// The number of successful calls before all others.
    handled: u32,
    /// True if the interrupted call succeeds.
    last_is_handled: bool,
}

impl InterruptedRun {
    fn new(name: &'static str, lines: u32, sent: u32, failed_calls: u32) -> Self {
        Self { name, lines, sent, failed_calls, handled: 0, last_is_handled: false }
    }
}

fn interrupt_during_a_call(
    InterruptedRun { name, lines, sent, failed_calls, handled, last_is_handled }: InterruptedRun,
) -> std::io::Result<()> {
    let line =
        |n| format!(r#"{{"metadata":{{"message_id":"0191f3a2-7b1c-7d3e-8f00-{n:012x}"}},"data":{{}}}}"#);
    let input: Vec<_> = (0..lines).map(line).collect();
    let messages = ScratchFile::new(name, input.join("\n").as_bytes());
    let policy = ScratchFile::new(
        "minutely.json",
        br#"{"backoff":{"kind":"fixed","delay_seconds":60,"jitter":"none"}}"#,
    );
    let target = TcpListener::bind("127.0.0.1:0")?;
    let url = format!("http://{}/", target.local_addr()?);
    let arguments =
        ["local", messages.name(), "--policy", policy.name(), "--target", &url, "--format", "json"];
    let mut child = program_command(&arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    for n in 0..handled + failed_calls {
        answer_call(&mut target.accept()?.0, n < handled)?;
    }
    // The call is in progress when the interrupt arrives.
    let (mut call, _) = target.accept()?;
    let kill = Command::new("sh").args(["-c", &format!("kill -INT {}", child.id())]).status();
    assert!(kill?.success());
    let mut errors = BufReader::new(child.stderr.take().expect("the stream is piped"));
    let mut reported = String::new();
    errors.read_line(&mut reported)?;
    assert_eq!(
        reported,
        "interrupted: waiting for the calls that are under way; Ctrl-C again does not wait\n"
    );
    answer_call(&mut call, last_is_handled)?;
    drop(target);
    let mut more = String::new();
    errors.read_to_string(&mut more)?;
    let output = child.wait_with_output()?;
    let waits = sent - handled - u32::from(last_is_handled);
    let report = checked_report(if waits > 0 { 130 } else { 0 }, &output);
    let counts = (&report["sent"], &report["waiting"], &report["unaccounted"]);
    assert_eq!(counts, (&sent.into(), &waits.into(), &0.into()), "{report}");
    let seconds = f64::from(60 * failed_calls);
    assert_eq!((&report["interrupted"], &report["seconds"]), (&(waits > 0).into(), &seconds.into()));
    if waits > 0 {
        let before = if sent == lines { "message finished" } else { "line was sent" };
        assert!(more.contains(&format!("error: interrupted before every {before}\n")), "{more}");
        let waiting = if waits == 10_000 { "10,000 messages" } else { "1 message" };
        assert!(more.contains(&format!("error: {waiting} still waiting\n")), "{more}");
    } else {
        assert!(!more.contains("error:"), "{more}");
    }
    Ok(())
}

fn answer_call(call: &mut TcpStream, is_handled: bool) -> std::io::Result<()> {
    // Waits for the call to start, and later reads the rest of it; otherwise the response could be lost.
    let _begun = call.read(&mut [0; 1])?;
    let status = if is_handled { "200 OK" } else { "500 Internal Server Error" };
    write!(call, "HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")?;
    call.shutdown(Shutdown::Write)?;
    call.read_to_end(&mut Vec::new()).map(drop)
}
