"""The application of Spring Boot's JMS tutorials: texts to a queue and a topic, and listeners."""
