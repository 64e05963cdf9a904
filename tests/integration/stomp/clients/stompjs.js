// Plays one scenario with the package @stomp/stompjs over WebSocket and prints what came: stompjs.js PORT SCENARIO
const { Client } = require('@stomp/stompjs');
const { WebSocket } = require('ws');

const [port, scenario] = process.argv.slice(2);
const queue = `/queue/${scenario}`;
setTimeout(() => { console.error('nothing came'); process.exit(1); }, 20000).unref();

const client = (more = {}) => new Promise((resolve) => {
  const created = new Client({
    webSocketFactory: () => new WebSocket(`ws://127.0.0.1:${port}`, ['v12.stomp', 'v11.stomp']),
    connectHeaders: { host: 'h' },
    heartbeatIncoming: 5000,
    heartbeatOutgoing: 5000,
    onConnect: () => resolve(created),
    ...more,
  });
  created.activate();
});

/** A subscription; `next()` resolves to the next message. */
function subscribe(from, headers = {}, destination = queue) {
  const found = [];
  const waiting = [];
  from.subscribe(destination, (message) => {
    if (waiting.length) waiting.shift()(message); else found.push(message);
  }, headers);
  return { next: () => found.shift() ?? new Promise((resolve) => waiting.push(resolve)) };
}

let receipts = 0;
/** Call with headers that ask for a receipt; resolves when it has come. */
const receipt = (of, call) => new Promise((resolve) => {
  receipts += 1;
  of.watchForReceipt(`r${receipts}`, resolve);
  call({ receipt: `r${receipts}` });
});
const send = (to, content, headers = {}) => receipt(to, (more) => to.publish({
  destination: queue,
  headers: { ...headers, ...more },
  ...(typeof content === 'string' ? { body: content, skipContentLengthHeader: true } : { binaryBody: content }),
}));

const scenarios = {
  async exchange() {
    const connected = await client();
    const messages = subscribe(connected);
    await send(connected, 'gr\u00fc\u00dfe', { custom: '5 % off' });
    const message = await messages.next();
    console.log(message.headers.custom, message.body);
    await connected.deactivate();
  },
  async bytes() {
    const connected = await client();
    const messages = subscribe(connected);
    await send(connected, new Uint8Array([0x61, 0, 0xff]));
    console.log(Buffer.from((await messages.next()).binaryBody).toString('hex'));
    await connected.deactivate();
  },
  async acknowledge() {
    const connected = await client();
    await send(connected, 'one');
    await send(connected, 'two');
    const messages = subscribe(connected, { ack: 'client' });
    const message = await messages.next();
    console.log(message.body);
    await messages.next();
    await receipt(connected, (headers) => message.ack(headers));
    await connected.deactivate();
    const other = await client();
    const again = await subscribe(other, { ack: 'client' }).next();
    console.log(again.body, again.headers.redelivered);
    await other.deactivate();
  },
  async receipts() {
    const connected = await client();
    const messages = subscribe(connected, { ack: 'client', 'activemq.prefetchSize': 1 });
    await send(connected, 'one');
    await send(connected, 'two');
    const transaction = connected.begin();
    await send(connected, 'three', { transaction: transaction.id });
    transaction.commit();
    for (let count = 0; count < 3; count += 1) {
      const message = await messages.next();
      console.log(message.body);
      message.ack();
    }
    await connected.deactivate();
  },
  async transaction() {
    const connected = await client();
    const messages = subscribe(connected);
    for (const way of ['abort', 'commit']) {
      const transaction = connected.begin();
      connected.publish({ destination: queue, body: way.toUpperCase(), headers: { transaction: transaction.id } });
      transaction[way]();
    }
    console.log((await messages.next()).body);
    await connected.deactivate();
  },
  async refusal() {
    let refused;
    const error = new Promise((resolve) => { refused = resolve; });
    const connected = await client({ onStompError: refused });
    subscribe(connected, { selector: 'price >' });
    console.log((await error).command);
  },
  async nack() {
    const connected = await client();
    const messages = subscribe(connected, { ack: 'client' });
    await send(connected, 'bad', { persistent: 'true' });
    (await messages.next()).nack();
    const dead = subscribe(connected, {}, '/queue/ActiveMQ.DLQ');
    console.log((await dead.next()).body);
    await connected.deactivate();
  },
};
scenarios[scenario]().then(() => process.exit(0), (error) => { console.error(error); process.exit(1); });
