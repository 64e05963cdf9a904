# Plays one scenario with Perl's Net::Stomp and prints what came: net_stomp.pl PORT SCENARIO
use strict;
use warnings;
use Net::Stomp;

my ( $port, $scenario ) = @ARGV;
my $queue = "/queue/$scenario";
binmode STDOUT, ':raw';
local $SIG{ALRM} = sub { die "nothing came\n" };
alarm 20;

# It knows no escapes, so 1.0 suits it, whose NACK ActiveMQ refuses.
sub client {
    my ($version) = @_;
    my $client = Net::Stomp->new( { hostname => '127.0.0.1', port => $port } );
    my $frame  = $client->connect( { 'accept-version' => $version // '1.0', host => 'h' } );
    die 'not connected' unless $frame && $frame->command eq 'CONNECTED';
    return $client;
}

sub subscribe {
    my ( $client, %more ) = @_;
    $client->subscribe( { destination => $queue, id => 's', %more } );
}

sub receive {
    my ( $client, %ack ) = @_;
    my $frame = $client->receive_frame;
    die $frame->command . ' ' . $frame->body unless $frame->command eq 'MESSAGE';
    return $frame;
}

my %scenarios = (
    exchange => sub {
        my $client = client();
        subscribe($client);
        $client->send( { destination => $queue, custom => '5 % off', body => "gr\xc3\xbc\xc3\x9fe" } );
        my $frame = receive($client);
        print $frame->headers->{custom}, ' ', $frame->body, "\n";
        $client->disconnect;
    },
    bytes => sub {
        my $client = client();
        subscribe($client);
        $client->send( { destination => $queue, bytes_message => 1, body => "a\0\xff" } );
        print unpack( 'H*', receive($client)->body ), "\n";
        $client->disconnect;
    },
    acknowledge => sub {
        my $client = client();
        $client->send( { destination => $queue, body => $_ } ) for qw(one two);
        subscribe( $client, ack => 'client' );
        my $frame = receive($client);
        print $frame->body, "\n";
        $client->ack( { frame => $frame, subscription => 's' } );
        receive($client);
        $client->disconnect;
        my $other = client();
        subscribe( $other, ack => 'client' );
        my $again = receive($other);
        print $again->body, ' ', $again->headers->{redelivered}, "\n";
        $other->disconnect;
    },
    receipts => sub {
        my $client = client();
        subscribe( $client, ack => 'client', 'activemq.prefetchSize' => 1 );
        for my $text (qw(one two three)) {    # the next frame must be the receipt
            my $send = $text eq 'three' ? 'send_transactional' : 'send_with_receipt';
            $client->$send( { destination => $queue, body => $text } ) or die 'no receipt';
            my $frame = receive($client);
            print $frame->body, "\n";
            $client->ack( { frame => $frame, subscription => 's' } );
        }
        $client->disconnect;
    },
    transaction => sub {
        my $client = client();
        subscribe($client);
        for my $end (qw(ABORT COMMIT)) {
            my $begin = Net::Stomp::Frame->new( { command => 'BEGIN', headers => { transaction => 't' } } );
            $client->send_frame($begin);
            $client->send( { destination => $queue, transaction => 't', body => $end } );
            my $frame = Net::Stomp::Frame->new( { command => $end, headers => { transaction => 't' } } );
            $client->send_frame($frame);
        }
        print receive($client)->body, "\n";
        $client->disconnect;
    },
    refusal => sub {
        my $client = client();
        subscribe( $client, selector => 'price >' );
        my $frame = $client->receive_frame;
        print $frame->command, "\n";
        $client->disconnect;
    },
    nack => sub {
        my $client = client('1.1');
        subscribe( $client, ack => 'client' );
        $client->send( { destination => $queue, persistent => 'true', body => 'bad' } );
        $client->nack( { frame => receive($client), subscription => 's' } );
        $client->unsubscribe( { destination => '/queue/ActiveMQ.DLQ', id => 's' } );
        $client->subscribe( { destination => '/queue/ActiveMQ.DLQ', id => 'dead' } );
        print receive($client)->body, "\n";
        $client->disconnect;
    },
);
$scenarios{$scenario}->();
