// A server of files as Node's guides have it: the path is parsed as a URL, decoded and normalised.
const http = require('node:http');
const path = require('node:path');

const [host, port] = process.argv[2].split(':');
http.createServer((request, response) => {
  let name;
  try {
    name = path.posix.normalize(decodeURIComponent(new URL(request.url, 'http://a').pathname));
  } catch {
    response.statusCode = 400;
    return response.end('refused');
  }
  response.end(/^\/admin(\/|$)/.test(name) ? 'protected' : 'open');
}).listen(port, host);
