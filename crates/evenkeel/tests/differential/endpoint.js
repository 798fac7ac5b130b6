// An HTTP endpoint of Node: answers each request with its method and target, and prints those as it sees them.
const [host, port] = process.argv[2].split(':');
const server = require('node:http').createServer((request, response) => {
    const line = `${request.method} ${request.url}`;
    console.log(line);
    request.resume();
    request.on('end', () => response.end(line));
});
server.on('clientError', (error, socket) => {
    // What it refuses it saw too; the end of a connection is nothing to be seen.
    if (error.rawPacket?.length) console.log(error.rawPacket.toString('latin1').split('\r\n')[0]);
    socket.end('HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 0\r\n\r\n');
});
server.keepAliveTimeout = 0;
server.listen(Number(port), host);
