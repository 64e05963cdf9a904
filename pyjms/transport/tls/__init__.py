"""TLS: options, SSL contexts made from them, and the layer between socket and wire format."""

from pyjms.transport.tls.context import TlsContext as TlsContext
from pyjms.transport.tls.context import shared_context as shared_context
from pyjms.transport.tls.handshake import accept_tls as accept_tls
from pyjms.transport.tls.handshake import connect_tls as connect_tls
from pyjms.transport.tls.options import CLIENT_TLS as CLIENT_TLS
from pyjms.transport.tls.options import IGNORED_OF_TLS_CLIENTS as IGNORED_OF_TLS_CLIENTS
from pyjms.transport.tls.options import SERVER_TLS as SERVER_TLS
from pyjms.transport.tls.options import TLS_SCHEMES as TLS_SCHEMES
from pyjms.transport.tls.options import TlsOptions as TlsOptions
from pyjms.transport.tls.options import check_cipher_suites as check_cipher_suites
from pyjms.transport.tls.options import read_client_tls as read_client_tls
from pyjms.transport.tls.options import read_server_tls as read_server_tls
from pyjms.transport.tls.options import with_tls as with_tls
