<?php
// Plays one scenario with PHP's extension Stomp and prints what came: php_stomp.php PORT SCENARIO
[, $port, $scenario] = $argv;
define('QUEUE', "/queue/$scenario");

function client(int $port): Stomp
{
    $client = new Stomp("tcp://127.0.0.1:$port", '', '', ['accept-version' => '1.1', 'host' => 'h']);
    $client->setReadTimeout(20);
    return $client;
}

function subscribe(Stomp $client, array $more = []): void
{
    $client->subscribe(QUEUE, ['id' => 's', 'ack' => 'auto', ...$more]);
}

function receive(Stomp $client): StompFrame
{
    $frame = $client->readFrame();
    if ($frame === false) {
        throw new Exception('nothing came');
    }
    return $frame;
}

$scenarios = [
    'exchange' => function () use ($port) {
        $client = client($port);
        subscribe($client);
        $client->send(QUEUE, "gr\xc3\xbc\xc3\x9fe", ['custom' => '5 % off', 'receipt' => 'r']);
        $frame = receive($client);
        print "{$frame->headers['custom']} {$frame->body}\n";
    },
    'bytes' => function () use ($port) {
        $client = client($port);
        subscribe($client);
        $client->send(QUEUE, "a\0\xff", ['content-length' => '3']);
        print bin2hex(receive($client)->body) . "\n";
    },
    'acknowledge' => function () use ($port) {
        $client = client($port);
        foreach (['one', 'two'] as $text) {
            $client->send(QUEUE, $text);
        }
        subscribe($client, ['ack' => 'client']);
        $frame = receive($client);
        print "$frame->body\n";
        $client->ack($frame, ['subscription' => 's', 'receipt' => 'r']);
        receive($client);
        unset($client);
        $other = client($port);
        subscribe($other, ['ack' => 'client']);
        $again = receive($other);
        print "$again->body {$again->headers['redelivered']}\n";
    },
    'receipts' => function () use ($port) {
        $client = client($port);
        subscribe($client, ['ack' => 'client', 'activemq.prefetchSize' => '1']);
        foreach (['one', 'two'] as $text) {
            $client->send(QUEUE, $text, ['receipt' => $text]);
        }
        $client->begin('t', ['receipt' => 'b']);
        $client->send(QUEUE, 'three', ['transaction' => 't', 'receipt' => 'three']);
        $client->commit('t', ['receipt' => 'c']);
        for ($i = 0; $i < 3; $i++) {
            $frame = receive($client);
            print "$frame->body\n";
            $client->ack($frame, ['subscription' => 's', 'receipt' => "a$i"]);
        }
    },
    'transaction' => function () use ($port) {
        $client = client($port);
        subscribe($client);
        foreach (['abort' => 'ABORT', 'commit' => 'COMMIT'] as $end => $text) {
            $client->begin('t');
            $client->send(QUEUE, $text, ['transaction' => 't']);
            $client->$end('t');
        }
        print receive($client)->body . "\n";
    },
    'refusal' => function () use ($port) {
        $client = client($port);
        $done = $client->subscribe(QUEUE, ['id' => 's', 'selector' => 'price >', 'receipt' => 'r']);
        print $done ? "subscribed\n" : "ERROR\n";
    },
    'nack' => function () use ($port) {
        $client = client($port);
        subscribe($client, ['ack' => 'client']);
        $client->send(QUEUE, 'bad', ['persistent' => 'true']);
        $client->nack(receive($client), ['subscription' => 's', 'receipt' => 'n']);
        $client->subscribe('/queue/ActiveMQ.DLQ', ['id' => 'dead']);
        print receive($client)->body . "\n";
    },
];
$scenarios[$scenario]();
