// Node as an endpoint: ADDRESS PROTOCOL, where the protocol is h1 or h2c.
const { createHash } = require('node:crypto');
const [address, protocol] = process.argv.slice(2);
const [host, port] = address.split(':');

async function hash(request) {
    const sum = createHash('sha256');
    for await (const part of request) sum.update(part);
    return sum.digest('hex');
}

async function serve(request, response) {
    response.setHeader('x-seen', `HTTP/${request.httpVersion}`);
    switch (request.url.split('?')[0]) {
        case '/hash':
            response.end(await hash(request));
            break;
        case '/echo':
            response.flushHeaders?.();
            request.pipe(response);
            break;
        case '/trailers': {
            response.setHeader('trailer', 'x-sum, x-own');
            const own = await hash(request);
            response.write('see the trailers');
            response.addTrailers({ 'x-sum': request.trailers['x-sum'] ?? '', 'x-own': own });
            response.end();
            break;
        }
        default:
            request.resume();
            response.end('hello');
    }
}

const library = require(protocol === 'h1' ? 'node:http' : 'node:http2');
const server = library.createServer({ maxSessionMemory: 1000 }, (request, response) => serve(request, response).catch(() => response.destroy?.()));
server.on('sessionError', () => {});
server.keepAliveTimeout = 0;
server.requestTimeout = 0;
server.listen(Number(port), host);
