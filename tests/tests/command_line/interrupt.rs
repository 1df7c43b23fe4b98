//! Ctrl-C while `redeliver local` runs in virtual time.

use std::io::{BufRead as _, BufReader, Read as _};
use std::net::{TcpListener, TcpStream};

use super::*;

/// A run over a large file, or against a slow endpoint, takes real minutes: what came out so far must not be thrown away.
#[test]
fn an_interrupted_run_in_virtual_time_ends_with_its_report() {
    interrupt_in_a_call(Run { name: "interrupt-one.jsonl", lines: 1, sent: 1, failed_calls: 0 }).unwrap();
}

#[test]
fn what_is_still_to_be_read_does_not_hold_up_the_end() {
    interrupt_in_a_call(Run { name: "interrupt-many.jsonl", lines: 10_001, sent: 10_000, failed_calls: 0 })
        .unwrap();
}

#[test]
fn an_interrupted_run_took_as_long_as_it_ran() {
    interrupt_in_a_call(Run { name: "interrupt-retry.jsonl", lines: 1, sent: 1, failed_calls: 1 }).unwrap();
}

struct Run {
    /// Of the file of messages.
    name: &'static str,
    lines: u32,
    /// Messages that are in the source queue before the target answers its first call.
    sent: u32,
    /// Before the call that is interrupted, a minute each.
    failed_calls: u32,
}

fn interrupt_in_a_call(Run { name, lines, sent, failed_calls }: Run) -> std::io::Result<()> {
    let line =
        |n| format!(r#"{{"metadata":{{"message_id":"0191f3a2-7b1c-7d3e-8f00-{n:012x}"}},"data":{{}}}}"#);
    let input: Vec<_> = (0..lines).map(line).collect();
    let messages = Scratch::new(name, input.join("\n").as_bytes());
    let policy =
        Scratch::new("minutely.json", br#"{"backoff":{"kind":"fixed","delay_seconds":60,"jitter":"none"}}"#);
    let target = TcpListener::bind("127.0.0.1:0")?;
    let url = format!("http://{}/", target.local_addr()?);
    let arguments =
        ["local", messages.name(), "--policy", policy.name(), "--target", &url, "--format", "json"];
    let mut child = program(&arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    for _ in 0..failed_calls {
        fail(&mut target.accept()?.0)?;
    }
    // The message is being handled: the interrupt comes in the middle of it.
    let (mut call, _) = target.accept()?;
    let kill = Command::new("sh").args(["-c", &format!("kill -INT {}", child.id())]).status();
    assert!(kill?.success());
    let mut errors = BufReader::new(child.stderr.take().expect("it is piped"));
    let mut said = String::new();
    errors.read_line(&mut said)?;
    assert_eq!(said, "interrupted: waiting for the calls that are under way; Ctrl-C again does not wait\n");
    fail(&mut call)?;
    drop(target);
    let mut more = String::new();
    errors.read_to_string(&mut more)?;
    let output = child.wait_with_output()?;
    let report = report_with(1, &output);
    let counts = (&report["sent"], &report["waiting"], &report["unaccounted"]);
    assert_eq!(counts, (&sent.into(), &sent.into(), &0.into()), "{report}");
    let seconds = f64::from(60 * failed_calls);
    assert_eq!((&report["interrupted"], &report["seconds"]), (&true.into(), &seconds.into()));
    let before = if sent == lines { "message came out" } else { "line was sent" };
    assert!(more.contains(&format!("error: interrupted before every {before}\n")), "{more}");
    let waiting = if sent == 10_000 { "10,000 messages" } else { "1 message" };
    assert!(more.contains(&format!("error: {waiting} still waiting\n")), "{more}");
    Ok(())
}

fn fail(call: &mut TcpStream) -> std::io::Result<()> {
    call.write_all(b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
}
