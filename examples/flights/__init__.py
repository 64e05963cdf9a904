"""The main job: an airport's departures through queues, listeners and a virtual topic."""
