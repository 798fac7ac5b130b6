//! evenkeel: a load balancer that measures its own balance.

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    let path = std::env::args().nth(3).expect("evenkeel run -c FILE");
    let outcome = evenkeel_config::load(path.as_ref(), &|name| std::env::var(name).ok());
    eprint!("{}", evenkeel_config::render_text(&outcome.diagnostics, false));
    let Some(plan) = outcome.plan else { std::process::exit(78) };
    match evenkeel_proxy::Server::start(plan) {
        Ok(server) => server.join(),
        Err(error) => {
            eprintln!("error: {error}");
            std::process::exit(1);
        }
    }
}
