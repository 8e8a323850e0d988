package mindspan.device;

import java.io.IOException;

/** The server answered with an error: one line, "Kind: text". */
final class ServerRefused extends IOException {
  private static final long serialVersionUID = 1;

  final int status;

  ServerRefused(int status, String line) {
    super(line.length() > 300 ? line.substring(0, 300) : line);
    this.status = status;
  }

  /** The name of the error on the server's side. */
  String kind() {
    return getMessage().split(":", 2)[0];
  }
}
