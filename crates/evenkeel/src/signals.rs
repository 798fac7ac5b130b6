//! Signals to the process. A separate thread catches them, so that no signal waits for the work of the process.
//! SIGTERM, SIGQUIT and Ctrl-C end it in order. A second such signal ends it at once, whatever its workers do.

use crate::log::queue;
use evenkeel_net::workers::Interrupt;
use rustix::process::Signal as Sig;
use std::io;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{Notify, Semaphore, oneshot};

/// Time after the second signal to end until this thread ends the process, if nothing else has.
const AT_ONCE: Duration = Duration::from_secs(1);

/// The signals, caught from the moment this exists.
pub struct Signals(Arc<Came>);

/// Signals that arrived and were not taken. Signals to end are counted. Of other signals a second adds nothing to the
/// first.
struct Came {
    ends: Semaphore,
    hangup: Notify,
    reopen: Notify,
    upgrade: Notify,
    interrupts: OnceLock<Interrupt>,
}

/// Request of the user or the service manager, by a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// SIGTERM, SIGQUIT or SIGINT: to end.
    End,
    /// SIGHUP: to read the configuration again, or that the terminal is gone.
    Hangup,
    /// SIGUSR1: to open its log again.
    Reopen,
    /// SIGUSR2: to let the program in its place take over.
    Upgrade,
}

impl Signals {
    /// Catches the signals.
    ///
    /// # Errors
    /// `sigaction(2)` fails, or the thread cannot be made.
    pub async fn catch() -> io::Result<Signals> {
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        let came = Arc::new(Came {
            ends: Semaphore::new(0),
            hangup: Notify::new(),
            reopen: Notify::new(),
            upgrade: Notify::new(),
            interrupts: OnceLock::new(),
        });
        let (caught, is_caught) = oneshot::channel();
        let to = came.clone();
        let follow = move || {
            runtime.block_on(async move {
                // The other side waits for it.
                match Caught::new() {
                    Err(error) => _ = caught.send(Err(error)),
                    Ok(signals) => {
                        let _ = caught.send(Ok(()));
                        follow(signals, &to).await;
                    }
                }
            });
        };
        std::thread::Builder::new().name("signals".into()).spawn(follow)?;
        is_caught.await.map_err(io::Error::other)??;
        Ok(Signals(came))
    }

    /// The first signal to end interrupts waits for workers.
    pub fn interrupts(&self, waits: Interrupt) {
        // Set once, when all has started.
        let _ = self.0.interrupts.set(waits);
    }

    /// Waits for the next signal. Signals to end go first.
    pub async fn next(&self) -> Asked {
        let Came { ends, hangup, reopen, upgrade, .. } = &*self.0;
        tokio::select! {
            biased;
            // The semaphore is never closed.
            Ok(end) = ends.acquire() => {
                end.forget();
                Asked::End
            }
            () = hangup.notified() => Asked::Hangup,
            () = reopen.notified() => Asked::Reopen,
            () = upgrade.notified() => Asked::Upgrade,
        }
    }
}

/// Passes signals on until the second signal to end. Then ends the process if nothing else does.
async fn follow(mut signals: Caught, to: &Came) {
    let mut ends = 0;
    while ends < 2 {
        match signals.next().await {
            Asked::End => {
                ends += 1;
                to.interrupts.get().into_iter().for_each(Interrupt::raise);
                to.ends.add_permits(1);
            }
            Asked::Hangup => to.hangup.notify_one(),
            Asked::Reopen => to.reopen.notify_one(),
            Asked::Upgrade => to.upgrade.notify_one(),
        }
    }
    tokio::time::sleep(AT_ONCE).await;
    tracing::error!("second signal, but something in this process hangs: exiting");
    queue::finish();
    std::process::exit(1);
}

struct Caught {
    terminate: Signal,
    quit: Signal,
    interrupt: Signal,
    hangup: Signal,
    user1: Signal,
    user2: Signal,
    /// A file that would be larger than the process may write: the call fails instead.
    _file_size: Signal,
}

impl Caught {
    fn new() -> io::Result<Caught> {
        Ok(Caught {
            terminate: signal(SignalKind::terminate())?,
            quit: signal(SignalKind::quit())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
            user1: signal(SignalKind::user_defined1())?,
            user2: signal(SignalKind::user_defined2())?,
            _file_size: signal(SignalKind::from_raw(Sig::XFSZ.as_raw()))?,
        })
    }

    async fn next(&mut self) -> Asked {
        tokio::select! {
            _ = self.terminate.recv() => Asked::End,
            _ = self.quit.recv() => Asked::End,
            _ = self.interrupt.recv() => Asked::End,
            _ = self.hangup.recv() => Asked::Hangup,
            _ = self.user1.recv() => Asked::Reopen,
            _ = self.user2.recv() => Asked::Upgrade,
        }
    }
}
