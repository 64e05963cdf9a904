// Plays one scenario with the package stompit and prints what came: stompit.js PORT SCENARIO
const stompit = require('stompit');

const [port, scenario] = process.argv.slice(2);
const queue = `/queue/${scenario}`;
setTimeout(() => { console.error('nothing came'); process.exit(1); }, 20000).unref();

const client = () => new Promise((resolve, reject) => stompit.connect(
  { host: '127.0.0.1', port, connectHeaders: { host: 'h', 'heart-beat': '5000,5000' } },
  (error, connected) => (error ? reject(error) : resolve(connected)),
));

const body = (message) => new Promise((resolve, reject) => {
  const parts = [];
  message.on('data', (part) => parts.push(part));
  message.on('end', () => resolve(Buffer.concat(parts)));
  message.on('error', reject);
});

/** A subscription; `next()` resolves to the next message with its body. */
function subscribe(from, headers = {}, destination = queue) {
  const found = [];
  const waiting = [];
  from.subscribe({ destination, ack: 'auto', ...headers }, (error, message) => {
    const item = error ? Promise.reject(error) : body(message).then((bytes) => ({ message, bytes }));
    item.catch(() => {});
    if (waiting.length) waiting.shift()(item); else found.push(item);
  });
  return { next: () => found.shift() ?? new Promise((resolve) => waiting.push(resolve)) };
}

/** Send a message; resolves when its receipt has come. */
const send = (to, content, headers = {}) => new Promise((resolve) => {
  const frame = to.send({ destination: queue, ...headers }, { onReceipt: resolve });
  frame.write(content);
  frame.end();
});
const end = (connected) => new Promise((resolve) => connected.disconnect(resolve));

const scenarios = {
  async exchange() {
    const connected = await client();
    const messages = subscribe(connected);
    await send(connected, 'gr\u00fc\u00dfe', { custom: '5 % off' });
    const { message, bytes } = await messages.next();
    console.log(message.headers.custom, bytes.toString());
    await end(connected);
  },
  async bytes() {
    const connected = await client();
    const messages = subscribe(connected);
    await send(connected, Buffer.from('6100ff', 'hex'), { 'content-length': 3 });
    console.log((await messages.next()).bytes.toString('hex'));
    await end(connected);
  },
  async acknowledge() {
    const connected = await client();
    await send(connected, 'one');
    await send(connected, 'two');
    const messages = subscribe(connected, { ack: 'client' });
    const { message, bytes } = await messages.next();
    console.log(bytes.toString());
    await messages.next();
    await new Promise((resolve) => connected.ack(message, {}, null, resolve));
    await end(connected);
    const other = await client();
    const again = await subscribe(other, { ack: 'client' }).next();
    console.log(again.bytes.toString(), again.message.headers.redelivered);
    await end(other);
  },
  async receipts() {
    const connected = await client();
    const messages = subscribe(connected, { ack: 'client', 'activemq.prefetchSize': 1 });
    await send(connected, 'one');
    await send(connected, 'two');
    const transaction = connected.begin();
    await send(connected, 'three', { transaction: transaction.id });
    await new Promise((resolve) => transaction.commit({ onReceipt: resolve }));
    for (let count = 0; count < 3; count += 1) {
      const { message, bytes } = await messages.next();
      console.log(bytes.toString());
      connected.ack(message);
    }
    await end(connected);
  },
  async transaction() {
    const connected = await client();
    const messages = subscribe(connected);
    for (const way of ['abort', 'commit']) {
      const transaction = connected.begin();
      const frame = transaction.send({ destination: queue });
      frame.end(way.toUpperCase());
      transaction[way]();
    }
    console.log((await messages.next()).bytes.toString());
    await end(connected);
  },
  async refusal() {
    const connected = await client();
    connected.on('error', () => console.log('ERROR'));
    await subscribe(connected, { selector: 'price >' }).next().catch(() => {});
  },
  async nack() {
    const connected = await client();
    const messages = subscribe(connected, { ack: 'client-individual' });
    await send(connected, 'bad', { persistent: true });
    connected.nack((await messages.next()).message);
    const dead = subscribe(connected, {}, '/queue/ActiveMQ.DLQ');
    console.log((await dead.next()).bytes.toString());
    await end(connected);
  },
};
scenarios[scenario]().then(() => process.exit(0), (error) => { console.error(error); process.exit(1); });
