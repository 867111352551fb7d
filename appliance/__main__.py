"""`python -m appliance`: the same program where its own name is on no PATH."""

from __future__ import annotations

from appliance.cli.main import main

if __name__ == "__main__":
    main()
