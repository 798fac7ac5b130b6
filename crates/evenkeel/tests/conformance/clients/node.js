// Node's http and http2 as clients: DOOR URL CA FILE CASES; prints a line for each case.
const fs = require('node:fs');
const { createHash } = require('node:crypto');
const { once } = require('node:events');
const [door, url, caFile, file, cases] = process.argv.slice(2);
const ca = fs.readFileSync(caFile);
const content = fs.readFileSync(file);
const sum = (bytes) => createHash('sha256').update(bytes).digest('hex');
const two = !door.startsWith('h1');
const http2 = require('node:http2');
const http1 = require(url.startsWith('https') ? 'node:https' : 'node:http');
// A session holds all that waits to be sent.
const session = two ? http2.connect(url, { ca, maxSessionMemory: 1000 }) : null;
const agent = two ? null : new http1.Agent({ keepAlive: true, maxSockets: 1, ca });

// A request whose body is still to come, and its response: { status, version, headers, body, trailers }.
function begin(method, path, trailers) {
    if (!two) {
        const headers = trailers ? { trailer: Object.keys(trailers).join(', '), te: 'trailers' } : {};
        const request = http1.request(url + path, { method, agent, headers });
        if (method === 'GET') request.end();
        if (trailers) request.addTrailers(trailers);
        const response = once(request, 'response').then(([message]) => ({
            status: message.statusCode, version: message.httpVersion, headers: message.headers, body: message,
            trailers: () => message.trailers,
        }));
        return { request, response };
    }
    const head = { ':method': method, ':path': path };
    // Go drops trailers that were not announced.
    if (trailers) Object.assign(head, { trailer: Object.keys(trailers).join(', '), te: 'trailers' });
    const request = session.request(head, { endStream: method === 'GET', waitForTrailers: Boolean(trailers) });
    if (trailers) request.on('wantTrailers', () => request.sendTrailers(trailers));
    let received = {};
    request.on('trailers', (headers) => { received = headers; });
    const response = once(request, 'response').then(([headers]) => ({
        status: headers[':status'], version: '2', headers, body: request, trailers: () => received,
    }));
    return { request, response };
}

async function whole(body) {
    const parts = [];
    for await (const part of body) parts.push(part);
    return Buffer.concat(parts);
}

async function ask(method, path, body, trailers) {
    const { request, response } = begin(method, path, trailers);
    if (body) request.end(body);
    const got = await response;
    return { ...got, content: await whole(got.body) };
}

const all = {
    async get() {
        const { status, version, content, headers } = await ask('GET', '/get');
        return [status, version, content, headers['x-seen']];
    },
    async post() {
        const { status, content: hash } = await ask('POST', '/hash', content);
        return [status, hash];
    },
    async echo() {
        const { status, content: back } = await ask('POST', '/echo', content);
        return [status, sum(back)];
    },
    async kept() {
        let good = 0;
        for (let n = 0; n < 20; n++) {
            const { status, content: text } = await ask('GET', '/get');
            if (status === 200 && String(text) === 'hello') good++;
        }
        return [good];
    },
    // Sends a piece only when the one before has come back.
    async stream() {
        const { request, response } = begin('POST', '/echo');
        request.write('piece 0\n');
        const { status, body } = await response;
        let count = 0, text = '';
        for await (const part of body) {
            text += part;
            while (text.startsWith(`piece ${count}\n`)) {
                text = text.slice(`piece ${count}\n`.length);
                count++;
                if (count < 50) request.write(`piece ${count}\n`);
                else request.end();
            }
        }
        return [status, count, text.length];
    },
    async trailers() {
        const text = 'with trailers';
        const { status, trailers } = await ask('POST', '/trailers', text, { 'x-sum': sum(text) });
        return [status, trailers()['x-sum'], trailers()['x-own']];
    },
};

(async () => {
    for (const name of cases.split(',')) console.log(name, ...(await all[name]()).map(String));
    session?.close();
    agent?.destroy();
})().catch((error) => {
    console.log('error:', error);
    process.exit(1);
});
