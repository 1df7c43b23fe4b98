//! `ministack`, an AWS emulator, as a child process on loopback.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;
use std::thread::sleep;
use std::time::Duration;

use crate::{settings, validated_requests};

/// Runs ministack until its standard input ends. The kernel closes that pipe however the test process ends, so even a
/// killed test run leaves nothing behind.
const PROGRAM: &str = "
import os, sys, threading
import ministack.app as emulator
sys.path.append(os.environ['SUPPORT'])
from aws_models import validating_asgi
threading.Thread(target=lambda: (sys.stdin.buffer.read(), os._exit(0)), daemon=True).start()
if 'RUNTIMES' in os.environ:
    import ministack_wrappers
emulator.app = validating_asgi(emulator.app)
sys.argv = ['ministack']
emulator.main()
";
const START_POLLS: u32 = 300;
const POLL_INTERVAL: Duration = Duration::from_millis(100);
const PORT_TRIES: u32 = 5;

type EmulatorVariables = Vec<(&'static str, String)>;

/// A running ministack; the process stops when it is dropped.
pub struct Ministack {
    process: Child,
    address: SocketAddr,
}

impl Ministack {
    /// Returns the instance that all tests in a test program share. Each test uses its own queues.
    #[must_use]
    pub fn shared() -> &'static Self {
        static SHARED: LazyLock<Ministack> = LazyLock::new(Ministack::start);
        &SHARED
    }

    /// Starts an instance with the services that the tests' functions need, and waits until it is ready.
    ///
    /// # Panics
    /// If ministack is not installed or does not start; the message names the log file.
    #[must_use]
    pub fn start() -> Self {
        Self::start_with(&|_| vec![("SERVICES", "sqs,dynamodb".to_owned())])
    }

    /// Starts an instance with all services that a deployment needs; its functions run as its own child processes.
    ///
    /// # Panics
    /// See [`Self::start`].
    #[must_use]
    pub fn with_all_services() -> Self {
        Self::start_with(&|address| {
            let programs = settings::venv_file("bin");
            let path = settings::env_variable("PATH").unwrap_or_default();
            vec![
                ("LAMBDA_EXECUTOR", "local".to_owned()),
                // The functions' AWS endpoint, and the host that receives their responses to CloudFormation.
                ("AWS_ENDPOINT_URL", format!("http://{address}")),
                ("MINISTACK_HOST", address.ip().to_string()),
                // The location of AWS's runtimes, for the wrapper scripts.
                ("RUNTIMES", settings::workspace_root().join("tests/runtimes").display().to_string()),
                ("PATH", format!("{}:{path}", programs.display())),
            ]
        })
    }

    fn start_with(variables: &dyn Fn(SocketAddr) -> EmulatorVariables) -> Self {
        let python = settings::venv_file("bin/python");
        let directory = settings::target_dir().join("ministack");
        std::fs::create_dir_all(&directory).expect("the target directory is writable");
        // Another process can take the port first. ministack then exits, and another port is tried.
        (0..PORT_TRIES)
            .find_map(|_| Self::start_on(settings::free_address(), &python, &directory, variables))
            .unwrap_or_else(|| panic!("ministack does not start; see {}", directory.display()))
    }

    /// Returns the endpoint for `AWS_ENDPOINT_URL`.
    #[must_use]
    pub fn endpoint_url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the port, which no other process can use while the emulator runs.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    fn start_on(
        address: SocketAddr,
        python: &Path,
        directory: &Path,
        variables: &dyn Fn(SocketAddr) -> EmulatorVariables,
    ) -> Option<Self> {
        let log: PathBuf = directory.join(format!("{}.log", address.port()));
        let log = File::create(log).expect("the target directory is writable");
        let process = Command::new(python)
            .args(["-c", PROGRAM])
            .env_clear()
            .env("TMPDIR", directory)
            .envs(variables(address))
            .env("BIND_HOST", address.ip().to_string())
            .env("GATEWAY_PORT", address.port().to_string())
            .env("SUPPORT", settings::workspace_root().join("tests/support"))
            .env(validated_requests::VARIABLE, validated_requests::output_file("ministack", address.port()))
            .env("IOT_MTLS_ENABLED", "0") // otherwise it binds the fixed port 8883
            .process_group(0) // only the harness stops ministack, not Ctrl-C
            .stdin(Stdio::piped())
            .stdout(log.try_clone().expect("a file handle can be copied"))
            .stderr(log)
            .spawn()
            .expect("the Python of the tests' environment runs");
        let mut ministack = Self { process, address };
        ministack.wait_until_ready().then_some(ministack)
    }

    fn wait_until_ready(&mut self) -> bool {
        for _ in 0..START_POLLS {
            if self.process.try_wait().is_ok_and(|exit| exit.is_some()) {
                return false;
            }
            if is_ready(self.address) {
                return true;
            }
            sleep(POLL_INTERVAL);
        }
        false
    }
}

impl Drop for Ministack {
    fn drop(&mut self) {
        let _already_ended = self.process.kill();
        let _exit = self.process.wait();
    }
}

fn is_ready(address: SocketAddr) -> bool {
    let mut answer = String::new();
    let exchange = TcpStream::connect(address).and_then(|mut stream| {
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        stream
            .write_all(b"GET /_ministack/ready HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
        stream.read_to_string(&mut answer)
    });
    exchange.is_ok() && answer.starts_with("HTTP/1.1 200")
}
