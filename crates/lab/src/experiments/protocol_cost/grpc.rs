//! gRPC endpoint: a process of this program that echoes each message over HTTP/2, with the
//! status in the trailers.

use crate::child::{self, Child};
use crate::endpoint::http2;
use crate::error::{Result, While};
use crate::http::{accepts, local};
use crate::origin;
use crate::scratch::Scratch;
use ::http::Request;
use bytes::Bytes;
use clap::{Arg, ArgMatches, Command, value_parser};
use h2::RecvStream;
use h2::server::SendResponse;
use tokio::net::{TcpListener, TcpStream};

/// Name of the hidden subcommand.
pub const NAME: &str = "grpc-endpoint";

/// Size of the message that the load sends, in bytes.
const MESSAGE: usize = 100;

/// Framed gRPC message that the load sends.
pub fn message() -> Vec<u8> {
    http2::message(&origin::content(MESSAGE))
}

/// Running endpoint, which listens on two ports.
pub struct Endpoint {
    pub ports: [u16; 2],
    process: Child,
    _folder: Scratch,
}

impl Endpoint {
    /// Starts the endpoint on the cores of the load.
    ///
    /// # Errors
    /// If it does not start.
    pub fn start() -> Result<Endpoint> {
        let folder = Scratch::new()?;
        let ports = origin::free_ports()?;
        let said = folder.path().join("said");
        let command = [child::this()?, NAME.into(), ports[0].to_string(), ports[1].to_string()];
        let process = Child::start("the gRPC endpoint", &command, None, &said, |_| accepts(local(ports[1])))?;
        Ok(Endpoint { ports, process, _folder: folder })
    }

    pub fn pid(&self) -> u32 {
        self.process.pid()
    }
}

/// Adds the arguments of the hidden subcommand.
pub fn arguments(command: Command) -> Command {
    command.arg(Arg::new("ports").required(true).num_args(2).value_parser(value_parser!(u16)))
}

/// Serves until it is killed.
///
/// # Errors
/// If it cannot listen.
pub fn run(matches: &ArgMatches) -> Result<()> {
    let ports: Vec<u16> = matches.get_many("ports").expect("clap requires them").copied().collect();
    let doing = || format!("cannot listen on {ports:?}");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().or_say(doing)?;
    runtime.block_on(async {
        let first = TcpListener::bind(local(ports[0])).await.or_say(doing)?;
        let second = TcpListener::bind(local(ports[1])).await.or_say(doing)?;
        tokio::spawn(accept(first));
        accept(second).await;
        Ok(())
    })
}

async fn accept(listener: TcpListener) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => drop(tokio::spawn(serve(stream))),
            Err(error) => eprintln!("cannot accept: {error}"),
        }
    }
}

/// Serves a connection until it ends.
async fn serve(stream: TcpStream) {
    // Otherwise an answer would wait for the ACK of the answer before. An error means that the connection is gone.
    let _ = stream.set_nodelay(true);
    // The client has gone: nothing to do.
    let Ok(mut connection) = http2::builder().handshake::<_, Bytes>(stream).await else { return };
    while let Some(Ok((request, respond))) = connection.accept().await {
        tokio::spawn(answer(request, respond));
    }
}

/// Echoes the body; `None` if the stream ends early.
async fn answer(request: Request<RecvStream>, mut respond: SendResponse<Bytes>) -> Option<()> {
    let message = http2::whole(request.into_body()).await?;
    let mut send = respond.send_response(http2::grpc(), false).ok()?;
    send.send_data(message.freeze(), false).ok()?;
    send.send_trailers(http2::status("0")).ok()
}
