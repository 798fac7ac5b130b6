//! What runs on one core? A worker: its event loop, its sockets at each address, its answers. Nothing in it is shared with
//! another worker but counters that others read, so nothing is locked.

use crate::answer::{Answerer, Moment};
use crate::pools::Found;
use crate::{tcp, udp};
use evenkeel_balance::Instant;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::{Duration, SystemTime};
use tokio::sync::{Notify, mpsc, watch};

/// Between two looks at the sets of pools that nobody asks for.
const REFRESH: Duration = Duration::from_secs(1);

/// What workers are to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Serve.
    Run,
    /// Leave the sockets to a successor, and end with the last connection.
    Retire,
    /// Answer what has come, and end.
    Drain,
}

/// What a worker hears of.
pub enum News {
    /// Another plan.
    Plan(Parts),
    /// Other endpoints of some pools; all else stays as it is. It is told, by being dropped, that they are known.
    Endpoints(Arc<Found>, Sender<()>),
}

/// Everything of a plan for one worker.
pub struct Parts {
    /// Every address, with what is answered there.
    pub listeners: Vec<ListenerParts>,
    /// Told, by being dropped, that all this is in use.
    pub done: Sender<()>,
}

/// A listener.
pub struct ListenerParts {
    pub answerer: Answerer,
    /// Its addresses; sockets where there were none yet.
    pub binds: Vec<(SocketAddr, Option<Sockets>)>,
    /// How long a client may be idle on a connection.
    pub idle: Duration,
    /// Open connections of this worker.
    pub connections_max: usize,
}

/// A socket that is bound, or listens. It is closed when its workers, mostly one, have let go of it.
pub type ListenFd = Arc<OwnedFd>;

/// Sockets at one address, one or more of each kind.
#[derive(Debug)]
pub struct Sockets {
    pub udp: Vec<ListenFd>,
    pub tcp: Vec<ListenFd>,
}

/// One address of a worker: what is answered there now, whatever plan its tasks began with.
pub struct Place {
    listener: RefCell<Listener>,
    open: Rc<Cell<usize>>,
    base: std::time::Instant,
    course: Cell<Course>,
    turn: Notify,
}

/// How far a place is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Course {
    /// It serves.
    Open,
    /// Nobody comes in any more; connections go on.
    Left,
    /// Connections end, too.
    Closed,
}

#[derive(Clone)]
struct Listener {
    answerer: Rc<RefCell<Answerer>>,
    idle: Duration,
    connections_max: usize,
}

/// A connection that is counted as long as this is held.
pub struct Open(Rc<Place>);

impl std::ops::Deref for Open {
    type Target = Place;

    fn deref(&self) -> &Place {
        &self.0
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.open.set(self.0.open.get() - 1);
    }
}

impl Place {
    /// Who answers now.
    pub fn answerer(&self) -> Rc<RefCell<Answerer>> {
        self.listener.borrow().answerer.clone()
    }

    /// How long a client may be idle.
    pub fn idle(&self) -> Duration {
        self.listener.borrow().idle
    }

    /// What time it is.
    pub fn moment(&self) -> Moment {
        let unix = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
        Moment { now: Instant(self.base.elapsed().as_nanos() as u64), unix: unix as u32 }
    }

    /// One more connection, if there is room.
    pub fn connect(self: &Rc<Place>) -> Option<Open> {
        let room = self.open.get() < self.listener.borrow().connections_max;
        room.then(|| {
            self.open.set(self.open.get() + 1);
            Open(self.clone())
        })
    }

    /// Waits until its sockets are to be left.
    pub async fn left(&self) {
        self.reached(Course::Left).await;
    }

    /// Waits until its connections are to end.
    pub async fn closed(&self) {
        self.reached(Course::Closed).await;
    }

    async fn reached(&self, course: Course) {
        while self.course.get() < course {
            self.turn.notified().await;
        }
    }

    fn turn(&self, to: Course) {
        self.course.set(to);
        self.turn.notify_waiters();
    }
}

/// Runs a worker on this thread until it is told to end, or nobody can tell it any more. `made`: told whether its event loop
/// could be made, before anybody relies on it.
///
/// # Errors
/// A socket can no longer be served, though nobody has said so: it closes them all, and ends.
pub fn run(
    base: std::time::Instant,
    plans: mpsc::UnboundedReceiver<News>,
    commands: watch::Receiver<Command>,
    made: &Sender<io::Result<()>>,
) -> io::Result<()> {
    let builder = &mut tokio::runtime::Builder::new_current_thread();
    let (runtime, told) = match builder.enable_all().build_local(tokio::runtime::LocalOptions::default()) {
        Ok(runtime) => (Some(runtime), Ok(())),
        Err(error) => (None, Err(error)),
    };
    // Whoever made this thread waits for it.
    let _ = made.send(told);
    runtime.map_or(Ok(()), |runtime| runtime.block_on(serve(base, plans, commands)))
}

async fn serve(
    base: std::time::Instant,
    mut plans: mpsc::UnboundedReceiver<News>,
    mut commands: watch::Receiver<Command>,
) -> io::Result<()> {
    let mut places: HashMap<SocketAddr, Rc<Place>> = HashMap::new();
    let mut tasks = tokio::task::JoinSet::new();
    let mut refresh = tokio::time::interval(REFRESH);
    let open = Rc::new(Cell::new(0));
    let course = loop {
        tokio::select! {
            news = plans.recv() => match news {
                Some(News::Plan(parts)) => install(parts, base, &open, &mut places, &mut tasks),
                Some(News::Endpoints(found, done)) => {
                    places.values().for_each(|place| place.answerer().borrow_mut().take_up(&found));
                    drop(done);
                }
                None => break Course::Closed,
            },
            command = commands.wait_for(|command| *command != Command::Run) => break match command.as_deref() {
                Ok(Command::Retire) => Course::Left,
                _ => Course::Closed,
            },
            _ = refresh.tick() => places.values().for_each(|place| {
                place.answerer().borrow_mut().refresh(place.moment().now);
            }),
            // Of a place that was left. Any other end is that of the worker, which somebody watches: without this socket it
            // would go on and answer less than comes.
            Some(ended) = tasks.join_next() => ended??,
        }
    };
    drop(plans);
    places.values().for_each(|place| place.turn(course));
    while tasks.join_next().await.is_some() {}
    Ok(())
}

/// Takes up a plan: what is answered changes between two messages; sockets of addresses that stay go on.
fn install(
    parts: Parts,
    base: std::time::Instant,
    open: &Rc<Cell<usize>>,
    places: &mut HashMap<SocketAddr, Rc<Place>>,
    tasks: &mut tokio::task::JoinSet<io::Result<()>>,
) {
    let mut before = std::mem::take(places);
    for ListenerParts { answerer, binds, idle, connections_max } in parts.listeners {
        let listener = Listener { answerer: Rc::new(RefCell::new(answerer)), idle, connections_max };
        for (addr, sockets) in binds {
            let stays = before.remove(&addr);
            let place = match (sockets, stays) {
                (None, Some(place)) => {
                    place.listener.replace(listener.clone());
                    place
                }
                (Some(Sockets { udp, tcp }), _) => {
                    let place = Rc::new(Place {
                        listener: RefCell::new(listener.clone()),
                        open: open.clone(),
                        base,
                        course: Cell::new(Course::Open),
                        turn: Notify::new(),
                    });
                    udp.into_iter().for_each(|socket| _ = tasks.spawn_local(udp::serve(place.clone(), socket)));
                    tcp.into_iter().for_each(|socket| _ = tasks.spawn_local(tcp::serve(place.clone(), socket)));
                    place
                }
                (None, None) => unreachable!("a new address comes with sockets"),
            };
            places.insert(addr, place);
        }
    }
    before.values().for_each(|place| place.turn(Course::Closed));
    drop(parts.done);
}
