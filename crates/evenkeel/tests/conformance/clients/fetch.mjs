// Node's fetch as a client: DOOR URL CA FILE CASES; prints a line for each case. NODE_EXTRA_CA_CERTS names the CA.
import { readFileSync } from 'node:fs';
import { createHash } from 'node:crypto';
const [, url, , file, cases] = process.argv.slice(2);
const content = readFileSync(file);
const ask = async (method, path, body) => {
    const response = await fetch(url + path, { method, body, duplex: body ? 'half' : undefined });
    return { response, content: Buffer.from(await response.arrayBuffer()) };
};
const all = {
    async get() {
        const { response, content: text } = await ask('GET', '/get');
        return [response.status, '1.1', text, response.headers.get('x-seen')];
    },
    async post() {
        const { response, content: hash } = await ask('POST', '/hash', content);
        return [response.status, hash];
    },
    async echo() {
        // Without a length.
        const parts = new ReadableStream({
            start(controller) {
                for (let at = 0; at < content.length; at += 65536) controller.enqueue(content.subarray(at, at + 65536));
                controller.close();
            },
        });
        const { response, content: back } = await ask('POST', '/echo', parts);
        return [response.status, createHash('sha256').update(back).digest('hex')];
    },
    async kept() {
        let good = 0;
        for (let n = 0; n < 20; n++) {
            const { response, content: text } = await ask('GET', '/get');
            if (response.status === 200 && String(text) === 'hello') good++;
        }
        return [good];
    },
};
for (const name of cases.split(',')) console.log(name, ...(await all[name]()).map(String));
